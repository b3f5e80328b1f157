//go:build !linux

package rendezvous

import "net"

// quickAck does nothing where the system has no such option.
func quickAck(net.Conn) {}
