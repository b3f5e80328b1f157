// Package connlimit bounds the connections of an HTTP server without turning away clients that ask something.
//
// A listener that just stops accepting at a limit can be taken hostage: connections that say nothing, or begin a request and
// never end it, keep their places until they time out, and a health probe waits so long. Here a new connection always gets
// a place as long as one is taken by a connection that is not being answered; the one that has waited for the longest time
// is closed.
//
//	listener := connlimit.New(inner, 256, connlimit.OldestGivesWay)
//	listener.Serve(&http.Server{Handler: handler})
package connlimit
