package workload

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// TestScan: what scan accepts, the decoder of any JSON accepts too, with the same values.
func TestScan(t *testing.T) {
	accepted, slow := 0, newRowDecoder(mooncakeKeys)
	compare := func(line string) {
		var fast row
		if !fast.scan([]byte(line)) {
			return
		}
		accepted++
		slow.row.clear()
		given, err := slow.objects.decode([]byte(line), &slow.row)
		slow.row.given = given
		if err != nil {
			t.Fatalf("%q: got error %v", line, err)
		}
		want := slow.row
		want.keys, want.strays, want.outputTokens, want.waitFor, want.branches = nil, nil, nil, nil, nil
		if len(fast.hashIDs) == 0 { // nil or not
			fast.hashIDs, want.hashIDs = nil, nil
		}
		if !reflect.DeepEqual(fast, want) || math.Signbit(fast.timestamp) {
			t.Fatalf("%q: got %+v, want %+v", line, fast, want)
		}
	}
	pieces := []string{
		"{", "}", "[", "]", ",", ":", " ", "\t", "\r", "\n", `"timestamp"`, `"input_length"`, `"output_length"`,
		`"hash_ids"`, `"session_id"`, `"delay"`,
		`"a"`, `"a\u0041"`, `"é"`, `"x"`, "0", "1", "12", "007", "0.5", "1.25", "1.", ".5", "-1", "1e3",
		"9007199254740993", "900719925474099.3",
		"0.1234567890123456", "123456789012345678", "1234567890123456789", "4294967296", "null", "true", "1 2", "[1,2]",
		"[]", "[1, 22 ,333]", "[1,]", "[,1]", "[1.5]",
	}
	rng := rand.New(rand.NewPCG(1, 0))
	for range 50_000 {
		var b strings.Builder
		if rng.IntN(4) > 0 { // mostly well-formed
			b.WriteString("{")
			for i := range rng.IntN(4) {
				if i > 0 {
					b.WriteString(",")
				}
				b.WriteString(pieces[10+rng.IntN(6)] + ":" + pieces[16+rng.IntN(len(pieces)-16)])
			}
			b.WriteString("}")
		}
		for range rng.IntN(3) {
			at := rng.IntN(b.Len() + 1)
			text := b.String()
			b.Reset()
			b.WriteString(text[:at] + pieces[rng.IntN(len(pieces))] + text[at:])
		}
		compare(b.String())
	}
	if accepted < 2_000 {
		t.Errorf("only %d lines were of the plain form", accepted)
	}
}

// TestScanReads: the lines of the public traces are of the plain form.
func TestScanReads(t *testing.T) {
	for _, line := range []string{
		`{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48]}`,
		`{"timestamp":0.125,"hash_ids":[1],"output_length":1}` + "\r",
		`{"session_id":"a b","delay":3.5,"hash_ids":[],"output_length":1}`,
	} {
		if d := newRowDecoder(mooncakeKeys); !d.row.scan([]byte(line)) {
			t.Errorf("%q is not of the plain form", line)
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add(`{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48]}`)
	f.Fuzz(func(t *testing.T, line string) {
		fast, slow := newRowDecoder(mooncakeKeys), newRowDecoder(mooncakeKeys)
		if !fast.row.scan([]byte(line)) {
			return
		}
		if _, err := slow.objects.decode([]byte(line), &slow.row); err != nil {
			t.Fatalf("%q: got error %v", line, err)
		}
	})
}
