package plane

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"dynosim/gocore/guard"
	"dynosim/gocore/protocol/wire"
)

// Answer is the stream that answers one request. One goroutine reads it; Stop and Close may come from others.
type Answer struct {
	source source
	codec  wire.Codec
}

// source is where the messages of an answer come from.
type source interface {
	// body is the next data message; io.EOF after the last one.
	body() ([]byte, error)
	// stop asks the worker to end the answer.
	stop() error
	close()
}

// Body returns the next data message as it is; io.EOF after the last one. An answer that breaks off is an
// io.ErrUnexpectedEOF.
func (a *Answer) Body() ([]byte, error) { return a.source.body() }

// Next returns the next piece; io.EOF after the last one.
func (a *Answer) Next() (wire.Chunk, error) {
	body, err := a.Body()
	if err != nil {
		return wire.Chunk{}, err
	}
	chunk, err := wire.DecodeChunk(a.codec, body)
	if err == nil && chunk.Final {
		return wire.Chunk{}, io.EOF
	}
	return chunk, err
}

// Stop asks the worker to end the answer.
func (a *Answer) Stop() error { return a.source.stop() }

// Close ends the connection.
func (a *Answer) Close() { a.source.close() }

// dialled is the connection that a worker has made to answer a request.
type dialled struct {
	conn net.Conn
	in   *bufio.Reader
}

func (d *dialled) body() ([]byte, error) {
	m, err := wire.ReadMessage(d.in, StandardMaxMessageSize)
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	case len(m.Header) > 0:
		return nil, io.EOF
	default:
		return m.Body, nil
	}
}

func (d *dialled) stop() error {
	_, err := d.conn.Write(wire.AppendSignal(nil, wire.Kill))
	return err
}

func (d *dialled) close() { _ = d.conn.Close() }

// PostHTTP sends a request to a worker that takes them as plain HTTP, at a URL, and waits until that accepts it.
func PostHTTP(ctx context.Context, client *http.Client, url string, o Outgoing) (*Answer, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, guard.Func(cancel))()
	request, err := http.NewRequestWithContext(life, http.MethodPost, url, bytes.NewReader(o.Body))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("request-id", o.ID)
	response, err := client.Do(request)
	if err != nil {
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if response.StatusCode != http.StatusOK {
		defer cancel()
		return nil, refusedHTTP(response)
	}
	return &Answer{source: &lines{response.Body, bufio.NewReader(response.Body), cancel}, codec: wire.JSON}, nil
}

// refusedHTTP returns the error of a response that is no answer.
func refusedHTTP(response *http.Response) error {
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, signalLimit))
	var d struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(text, &d) != nil || d.Error == "" {
		d.Error = "status " + response.Status
	}
	return refusal(d.Error)
}

// lines is an answer of JSON lines.
type lines struct {
	from   io.Closer
	in     *bufio.Reader
	cancel context.CancelFunc
}

func (l *lines) body() ([]byte, error) {
	line, err := l.in.ReadBytes('\n')
	var d struct {
		Final bool            `json:"complete_final"`
		Error json.RawMessage `json:"error"`
	}
	switch {
	case err != nil:
		return nil, io.ErrUnexpectedEOF
	case json.Unmarshal(line, &d) != nil:
		return nil, fmt.Errorf("answer: got %.40q, want a JSON object in each line", line)
	case d.Final:
		return line, nil
	case len(d.Error) > 0:
		comment, _ := json.Marshal(string(d.Error))
		line = fmt.Appendf(nil, `{"event":"error","comment":[%s]}`, comment)
	}
	return fmt.Appendf(nil, `{"data":%s,"complete_final":false}`, bytes.TrimSpace(line)), nil
}

func (l *lines) stop() error {
	l.cancel()
	return nil
}

func (l *lines) close() {
	l.cancel()
	_ = l.from.Close()
}
