// Package discovery is how workers, frontends and subscribers of events find each other: records in three buckets, each
// under a key that names its owner.
//
//	v1/instances       where requests for an endpoint go      NAMESPACE/COMPONENT/ENDPOINT/INSTANCE
//	v1/mdc             the card of the model that it serves   the same
//	v1/event_channels  where events are published             NAMESPACE/COMPONENT/TOPIC/PUBLISHER
//	v1/event_sources   which rank of a worker publishes them  namespace/N/component/C/endpoint/E/topic/T/PUBLISHER
//
// The first three and their keys are those of Dynamo 1.3. Dynamo 1.6 has event sources, and looks for event channels
// under keys like theirs; workers write the records of both.
//
// A [Store] holds the records of one worker and keeps them alive: they go away when it is closed, and expire by
// themselves some seconds after a process was killed. Package live/store has the stores.
package discovery
