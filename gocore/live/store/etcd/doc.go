// Package etcd keeps the discovery records of one worker in etcd, where processes of all hosts find them.
//
//	v1/instances/dynamo/backend/generate/694da1fd37b0ef09   {"type":"Endpoint", ...}   lease 694da1fd37b0ef09
//
// All records of a worker are attached to one lease, whose number is the instance id of the worker. The worker renews
// the lease as long as it lives. If it does not for the lease's time to live, etcd removes the records; a clean exit
// removes them at once.
//
// A [Store] survives outages of etcd. It keeps a copy of its records, and with every renewal compares them with those
// attached to the lease. After an outage that was longer than the lease, or if etcd has lost its data, the lease is
// taken again under its old number. So the worker comes back as the same instance: its paths and subjects, and what
// frontends know of it, stay valid. The reference ends the worker instead.
//
// config.go has the environment variables, lease.go the life of the lease, password.go the login with a password.
package etcd
