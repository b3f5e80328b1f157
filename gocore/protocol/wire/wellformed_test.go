package wire

import (
	"bytes"
	"errors"
	"testing"

	"github.com/tinylib/msgp/msgp"
)

func TestWellFormed(t *testing.T) {
	values := []any{
		nil, true, 7, -7, 200, 70000, uint64(1 << 40), -70000, 1.5, float32(1.5), "text", string(make([]byte, 300)),
		make([]byte, 70000), make([]int, 20), make([]int, 70000), map[string]any{"a": []any{1, "b", nil}},
	}
	for _, v := range values {
		data, err := msgp.AppendIntf(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		if err := wellFormed(append(data, 0xc1)); err != nil {
			t.Errorf("%.40v: %v", v, err)
		}
		if err := wellFormed(data[:len(data)-1]); !errors.Is(err, errTruncated) {
			t.Errorf("%.40v without its end: got %v", v, err)
		}
	}
	if err := wellFormed(bytes.Repeat([]byte{0x91}, 1<<25)); !errors.Is(err, errTooDeep) {
		t.Errorf("got %v, want %v", err, errTooDeep)
	}
	if err := wellFormed([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}); !errors.Is(err, errTruncated) {
		t.Errorf("got %v, want %v", err, errTruncated)
	}
	if err := wellFormed([]byte{0xc1}); !errors.Is(err, errReserved) {
		t.Errorf("got %v, want %v", err, errReserved)
	}
}
