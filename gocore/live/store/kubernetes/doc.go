// Package kubernetes keeps discovery records in the API server of a Kubernetes cluster.
//
// All records of a process are one custom resource, a DynamoWorkerMetadata named after its pod, or after pod and container:
//
//	spec.data.endpoints, .model_cards, .event_channels   documents by key, as in every other backend
//
// There is no lease. Frontends watch these resources, and which pods are ready; they take an instance for alive if both say
// so. The pod owns the resource, so that it goes with the pod at the latest.
//
// A [Resource] is the resource of this process and a [discovery.Store] is what one worker adds to it. So several workers of
// a process are several instances, which the reference does not manage: it has one resource for each, all of one name. The
// first worker has the id that readers derive from the name; those of others are derived in the same manner.
//
// Whatever is put or deleted, the whole resource is written again (server-side apply). If somebody deletes it while the
// process lives, it is written again within seconds; an identity that is that of no living pod is refused at the start, if
// the pod may look itself up.
//
// config.go has the environment, id.go the ids, resource.go what is written.
package kubernetes
