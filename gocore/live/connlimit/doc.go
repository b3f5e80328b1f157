// Package connlimit bounds the connections of an HTTP server without turning away clients that send requests.
//
// A listener that merely stops accepting at a limit can be blocked: connections that send nothing, or never finish a
// request, keep their places until they time out, and a health probe has to wait for that. Here a new connection gets a
// place as long as any connection is without a request that is being answered. Of those, the one that has been idle for
// the longest time is closed.
//
//	listener := connlimit.New(inner, 256, connlimit.OldestGivesWay)
//	listener.Serve(&http.Server{Handler: handler})
package connlimit
