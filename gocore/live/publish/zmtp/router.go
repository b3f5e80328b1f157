package zmtp

import (
	"bufio"
	"iter"
	"log/slog"
	"net"
)

// Router is a ROUTER socket that answers requests: peers connect, send messages, and get any number of messages for
// each.
type Router struct {
	server *server
	answer func(request [][]byte) (reply iter.Seq[[][]byte])
}

// ListenRouter binds a ROUTER socket to a TCP address. answer is called from several goroutines, with the frames that a
// peer has sent; the messages it returns are made one by one, and sent back to that peer alone.
func ListenRouter(address string, log *slog.Logger, answer func(request [][]byte) (reply iter.Seq[[][]byte])) (*Router,
	error) {
	s, err := listen(address, log, "ROUTER", "DEALER", "REQ", "ROUTER")
	if err != nil {
		return nil, err
	}
	r := &Router{server: s, answer: answer}
	s.start(r.serve)
	return r, nil
}

// Port returns the TCP port that the socket is bound to.
func (r *Router) Port() int { return r.server.listener.Addr().(*net.TCPAddr).Port }

// Close finishes replies to the peers that read them at once, and closes all connections.
func (r *Router) Close() { r.server.close() }

func (r *Router) serve(conn net.Conn, in *bufio.Reader) error {
	out := bufio.NewWriter(conn)
	for {
		f, err := readFrame(in, maxFrameBytes)
		if err != nil {
			return err
		}
		if f.command {
			err = pong(out, f.body)
		} else {
			err = r.reply(conn, in, out, f)
		}
		if err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

// pong answers a ping. Other commands are ignored.
func pong(out *bufio.Writer, command []byte) error {
	name, data, err := splitCommand(command)
	if err != nil || name != "PING" || len(data) < 2 {
		return err
	}
	_, err = out.Write(appendCommand(nil, "PONG", data[2:]))
	return err
}

// reply reads the rest of a request and answers it.
func (r *Router) reply(conn net.Conn, in *bufio.Reader, out *bufio.Writer, first frame) error {
	request, err := readMessage(in, first, maxFrameBytes)
	if err != nil {
		return err
	}
	for message := range r.answer(request) {
		if err := r.server.mayWrite(conn); err != nil {
			return err
		}
		if _, err := out.Write(appendMessage(nil, message)); err != nil {
			return err
		}
	}
	return nil
}
