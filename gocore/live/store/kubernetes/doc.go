// Package kubernetes keeps discovery records in the API server of a Kubernetes cluster.
//
// All records of a process are one custom resource, a DynamoWorkerMetadata named after its pod, or after pod and
// container:
//
//	spec.data.endpoints, .model_cards, .event_channels   documents by key, as in every other backend
//
// There is no lease. Frontends watch these resources and the readiness of pods. To them an instance is alive if its
// resource exists and its pod is ready. The pod owns the resource, so Kubernetes deletes it with the pod at the latest.
//
// A [Resource] is the resource of this process, and a [discovery.Store] is the part of one worker in it. So several
// workers of a process are several instances. The reference cannot do that: it makes one resource for each, all of the
// same name. The first worker has the id that readers derive from the name; the ids of others are derived in the same
// manner.
//
// After every change the whole resource is written again (server-side apply). If it is deleted while the process lives,
// it is written again within seconds. If the pod has the permission to look itself up, the identity of a pod that does
// not exist is refused at the start.
//
// config.go has the environment, id.go the ids, resource.go what is written.
package kubernetes
