package rendezvous

import (
	"net"
	"syscall"
)

// quickAck makes the system acknowledge the next data at once. Peers that delay small messages until the last one is
// acknowledged, such as workers of ai-dynamo 1.3.1, would otherwise hold back the second of two messages for some 40
// ms. The system forgets the option after a while, so it is set again and again.
func quickAck(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK,
				1)
		})
	}
}
