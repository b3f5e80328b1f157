// Package bus is the connection of a process to a NATS server, over which a deployment may send requests and events.
//
// A [Conn] that has lost its server tries to reconnect for as long as the process lives. Messages published meanwhile
// are buffered and sent afterwards. Those that do not fit the buffer are lost, and counted; routers notice the gap and
// ask for the events that they missed.
//
// config.go has the environment variables.
package bus
