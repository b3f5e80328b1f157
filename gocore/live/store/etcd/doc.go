// Package etcd keeps the discovery records of one worker in etcd, where processes of all hosts find them.
//
//	v1/instances/dynamo/backend/generate/694da1fd37b0ef09   {"type":"Endpoint", ...}   lease 694da1fd37b0ef09
//
// All records of a worker hang on one lease, whose number is the instance id of the worker. As long as the worker lives it
// renews the lease; if it does not for the lease's time to live, etcd removes the records, and a clean exit does so at once.
//
// A [Store] survives what happens to etcd. The records that should be there are kept here as well, and with every renewal
// compared with what hangs on the lease. After an outage that was longer than the lease, or an etcd that has forgotten
// everything, the lease is taken again under its old number, so that the worker comes back as the instance that it was: the
// frontends' view of it, paths and subjects stay valid. The reference ends the worker instead.
//
// config.go has the environment variables, lease.go the life of the lease, password.go what a worker with a password says.
package etcd
