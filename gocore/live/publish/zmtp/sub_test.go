package zmtp

import (
	"fmt"
	"log/slog"
	"testing"
)

// TestSub: a subscriber hears its topic, and comes back when the publisher does.
func TestSub(t *testing.T) {
	p := listenPub(t)
	heard := make(chan string, 64)
	s := Subscribe(address(p.Port()), "wanted", slog.New(slog.DiscardHandler), func() {},
		func(frames [][]byte) { heard <- fmt.Sprintf("%s %s", frames[0], frames[1]) })
	defer s.Close()
	eventually(t, "the subscription", func() bool { return topics(p) == 1 && s.Err() == nil })
	if !p.Subscribed("wanted") || p.Subscribed("unwanted") {
		t.Error("the socket does not know its subscriptions")
	}
	p.Send([][]byte{[]byte("unwanted"), []byte("0")})
	p.Send([][]byte{[]byte("wanted"), []byte("1")})
	if got := <-heard; got != "wanted 1" {
		t.Errorf("got %s", got)
	}
	port := p.Port()
	p.Close()
	eventually(t, "the end of the connection", func() bool { return s.Err() != nil })
	again, err := ListenPub(address(port), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Skip("another process has taken the port: ", err)
	}
	defer again.Close()
	eventually(t, "the subscription after a restart", func() bool { return topics(again) == 1 })
	again.Send([][]byte{[]byte("wanted"), make([]byte, 100_000)})
	if got := <-heard; len(got) != len("wanted ")+100_000 {
		t.Errorf("got %d bytes", len(got))
	}
}
