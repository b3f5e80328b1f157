// Package bus is the connection of a process to a NATS server. Requests come over it and events leave, if a deployment is
// set up that way.
//
// A [Conn] looks for the server again for as long as the process lives. What is published meanwhile is sent afterwards, as
// far as it fits into a buffer; then events are lost, and counted. Routers notice gaps and ask for what they missed.
//
// config.go has the environment variables.
package bus
