package rendezvous

import (
	"net"
	"syscall"
)

// quickAck makes the system acknowledge at once what comes next. A peer that does not send small messages at once, as the
// workers of ai-dynamo 1.3.1, would otherwise hold back the second of two in a row for some 40 ms. It holds only for a
// while, so it has to be asked for again and again.
func quickAck(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1) })
	}
}
