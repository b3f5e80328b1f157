package live

import (
	"encoding/binary"
	"io"
	"log"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"

	"dynosim/gocore/live/freeport"
	"dynosim/gocore/live/publish/eventstest"
)

// askReplay asks a replay port for the messages from a number on, as a DEALER does, and returns their numbers and
// tokens.
func askReplay(t *testing.T, port int, from uint64) (numbers []uint64, stored []uint32) {
	t.Helper()
	d := zmq4.NewDealer(t.Context(), zmq4.WithLogger(log.New(io.Discard, "", 0)))
	defer func() { _ = d.Close() }()
	if err := d.Dial("tcp://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil {
		t.Fatal(err)
	}
	for _, nonsense := range [][]byte{nil, []byte("1234567"), make([]byte, 100)} { // is ignored
		if err := d.SendMulti(zmq4.NewMsgFrom([]byte{}, nonsense)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.SendMulti(zmq4.NewMsgFrom([]byte{}, binary.BigEndian.AppendUint64(nil, from))); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = d.Close() })
	defer late.Stop()
	for {
		m, err := d.Recv()
		if err != nil || len(m.Frames) != 3 || len(m.Frames[0]) != 0 {
			t.Fatalf("got %q, %v", m.Frames, err)
		}
		number := binary.BigEndian.Uint64(m.Frames[1])
		if number == ^uint64(0) {
			if len(m.Frames[2]) != 0 {
				t.Errorf("the end has a payload of %d bytes", len(m.Frames[2]))
			}
			return numbers, stored
		}
		batch, err := eventstest.Native(m.Frames[2])
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, number)
		for _, e := range batch.Events {
			stored = append(stored, e.Tokens...)
		}
	}
}

// TestReplayPort: a subscriber that has missed events of a rank gets them again, and those of no other rank.
func TestReplayPort(t *testing.T) {
	port := freeport.Ports(t, 8)
	_, store := startProcess(t, port)
	prompt := make([]uint32, 40)
	for i := range prompt {
		prompt[i] = uint32(100 + i)
	}
	said := slices.Concat(prompt, generate(t, store, prompt, 30, 1))[:64]
	var asked [][]uint64
	for worker := range 2 { // which of them it was is not known
		replay := port + 4 + 2*worker
		if numbers, _ := askReplay(t, replay, 0); len(numbers) > 0 {
			t.Errorf("rank 0 has events %v", numbers)
		}
		numbers, stored := askReplay(t, replay+1, 0)
		if len(numbers) == 0 {
			continue
		}
		asked = append(asked, numbers)
		if !slices.Equal(stored, said) {
			t.Errorf("got  %v\nwant %v", stored, said)
		}
		last := numbers[len(numbers)-1]
		if again, _ := askReplay(t, replay+1, last); !slices.Equal(again, []uint64{last}) {
			t.Errorf("from %d on: got %v", last, again)
		}
		if none, _ := askReplay(t, replay+1, last+1); none != nil {
			t.Errorf("after the last: got %v", none)
		}
	}
	if len(asked) != 1 || asked[0][0] != 0 || int(asked[0][len(asked[0])-1]) != len(asked[0])-1 {
		t.Errorf("got %v", asked)
	}
}
