package workload

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const twoRows = `{"output_length":1,"hash_ids":[7]}` + "\n" + `{"output_length":2,"hash_ids":[7]}` + "\n"

func gzipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zstandard(t testing.TB, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(w.EncodeAll([]byte(text), nil))
}

func TestCompressedTraces(t *testing.T) {
	half := len(twoRows) / 2
	gz, zst := gzipped(t, twoRows), zstandard(t, twoRows)
	for _, c := range []struct{ name, file, want string }{
		{"plain", twoRows, ""},
		{"gzip", gz, ""},
		{"gzip of two members that part a row", gzipped(t, twoRows[:half]) + gzipped(t, twoRows[half:]), ""},
		{"zstd", zst, ""},
		{"zstd of two frames that part a row", zstandard(t, twoRows[:half]) + zstandard(t, twoRows[half:]), ""},

		{"gzip without its end", gz[:len(gz)-1], "cannot be read: the compressed data is truncated"},
		{"gzip cut in the middle", gz[:len(gz)/2], "cannot be read: the compressed data is truncated"},
		{"gzip cut in its header", gz[:5], "t.jsonl cannot be read: the compressed data is truncated"},
		{"gzip cut after its magic number", gz[:2], "t.jsonl cannot be read: the compressed data is truncated"},
		{"gzip with a wrong checksum", gz[:len(gz)-8] + "\x00\x00\x00\x00" + gz[len(gz)-4:],
			"cannot be read: gzip: invalid checksum"},
		{"gzip and garbage", gz + "garbage garbage", "cannot be read: gzip"},
		{"zstd without its end", zst[:len(zst)-1], "cannot be read: the compressed data is truncated"},
		{"zstd cut in the middle", zst[:len(zst)/2], "cannot be read: the compressed data is truncated"},
		{"zstd cut after its magic number", zst[:4], "cannot be read: the compressed data is truncated"},
		{"gzip of nothing", gzipped(t, ""), "t.jsonl: holds no requests"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := load(c.file)
			if c.want == "" {
				if err != nil || len(w.Turns) != 2 {
					t.Errorf("got %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "t.jsonl") {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestReadErrorsPassOn(t *testing.T) {
	broken := errors.New("disk on fire")
	for name, r := range map[string]io.Reader{
		"at once":   iotest.ErrReader(broken),
		"in a line": io.MultiReader(strings.NewReader(twoRows+"{"), iotest.ErrReader(broken)),
	} {
		_, err := LoadMooncake(r, "t.jsonl", TraceSpec{TraceBlockSize: 4, EngineBlockSize: 4})
		if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "t.jsonl") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	_, err := LoadMooncake(iotest.OneByteReader(strings.NewReader(twoRows)), "t.jsonl",
		TraceSpec{TraceBlockSize: 4, EngineBlockSize: 4})
	if err != nil {
		t.Errorf("one byte at a time: %v", err)
	}
}

// repeated is an endless text.
type repeated byte

func (r repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

func TestLongLines(t *testing.T) {
	padded := func(n int64) io.Reader {
		return io.MultiReader(strings.NewReader(twoRows), io.LimitReader(repeated(' '), n), strings.NewReader(twoRows))
	}
	spec := TraceSpec{TraceBlockSize: 4, EngineBlockSize: 4}
	w, err := LoadMooncake(padded(1<<20), "t.jsonl", spec)
	if err != nil || len(w.Turns) != 4 {
		t.Errorf("a line of a megabyte: %v", err)
	}
	_, err = LoadMooncake(padded(100<<20), "t.jsonl", spec)
	if want := "t.jsonl line 3: longer than 67108864 bytes, the limit for one line"; err == nil || err.Error() != want {
		t.Errorf("a line of 100 MB: got %v, want %s", err, want)
	}
}
