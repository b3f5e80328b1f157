package tracefile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// MaxLineBytes is the longest trace line that is read. A prompt of a hundred million tokens fits many times.
const MaxLineBytes = 64 << 20

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// Plain returns a reader of the plain text of r, which may be compressed with gzip or zstd. The content decides, not a
// file name, so that it works for standard input too.
func Plain(r io.Reader) (io.Reader, error) {
	plain, err := decompressed(r)
	if err != nil {
		return nil, readFault(err)
	}
	return withoutMark(plain), nil
}

// byteOrderMark is what some programs on Windows write before UTF-8 text.
const byteOrderMark = "\ufeff"

// withoutMark skips a byte order mark. An error comes again when the rest is read.
func withoutMark(plain io.Reader) io.Reader {
	head := make([]byte, len(byteOrderMark))
	n, _ := io.ReadFull(plain, head)
	if string(head[:n]) == byteOrderMark {
		return plain
	}
	return io.MultiReader(bytes.NewReader(head[:n]), plain)
}

func decompressed(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReaderSize(r, 1<<16)
	head, err := buffered.Peek(len(zstdMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		return gzip.NewReader(buffered)
	case bytes.HasPrefix(head, zstdMagic):
		// One goroutine-free decoder: a trace is parsed far slower than it decompresses.
		return zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1))
	}
	return buffered, nil
}

// Lines yields the lines of a trace without their line ends.
type Lines struct {
	r    *bufio.Reader
	line []byte // the current line when it does not fit the reader's buffer
}

// NewLines reads r, which may be compressed.
func NewLines(r io.Reader) (*Lines, error) {
	plain, err := Plain(r)
	if err != nil {
		return nil, err
	}
	return &Lines{r: bufio.NewReaderSize(plain, 1<<18)}, nil
}

// Next returns the next line, valid until the following call, or io.EOF.
func (l *Lines) Next() ([]byte, error) {
	part, err := l.r.ReadSlice('\n')
	if err == nil {
		return part[:len(part)-1], nil
	}
	l.line = append(l.line[:0], part...)
	for errors.Is(err, bufio.ErrBufferFull) && len(l.line) <= MaxLineBytes {
		part, err = l.r.ReadSlice('\n')
		l.line = append(l.line, part...)
	}
	switch {
	case len(l.line) > MaxLineBytes:
		return nil, fmt.Errorf("longer than %d bytes, the limit for one line", MaxLineBytes)
	case err == nil:
		return l.line[:len(l.line)-1], nil
	case errors.Is(err, io.EOF) && len(l.line) > 0:
		return l.line, nil
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	}
	return nil, readFault(err)
}

// readFault returns the error for a file that cannot be read or decompressed.
func readFault(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("cannot be read: the compressed data is truncated or followed by something else")
	}
	return fmt.Errorf("cannot be read: %w", err)
}
