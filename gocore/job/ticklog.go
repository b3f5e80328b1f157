package job

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"dynosim/gocore/planner"
)

// tickLog writes a line for each tick of a planner: what it saw, without the passes, and what it decided. An error of
// the file shows when it is flushed.
type tickLog struct{ buffer *bufio.Writer }

func newTickLog(file io.Writer) *tickLog { return &tickLog{bufio.NewWriterSize(file, 1<<16)} }

func (l *tickLog) flush() error { return l.buffer.Flush() }

// add writes a tick. Targets are null where the planner leaves a pool alone, and next_tick_ms is if there is no further
// tick.
func (l *tickLog) add(t *planner.Tick, d planner.Decision) {
	line := appendReal([]byte(`{"now_ms":`), t.NowMs)
	for _, pool := range []struct {
		name  string
		state *planner.Pool
	}{{"prefill", &t.Prefill}, {"decode", &t.Decode}} {
		s := pool.state
		line = fmt.Appendf(line, `,"active_%s_count":%d,"starting_%s_count":%d,"total_%s_count":%d,"held_%s_requests":%d`,
			pool.name, s.Active, pool.name, s.Starting, pool.name, s.Total, pool.name, s.Held)
		waiting, running := 0, 0
		for _, g := range s.Gauges {
			waiting, running = waiting+g.Waiting, running+g.Running
		}
		if s.Gauges != nil {
			line = fmt.Appendf(line, `,"waiting_%s_requests":%d,"running_%s_requests":%d`, pool.name, waiting,
				pool.name, running)
		}
	}
	line = appendTraffic(append(line, `,"traffic":`...), &t.Traffic)
	line = appendTarget(append(line, `,"target_prefill":`...), d.Prefill)
	line = appendTarget(append(line, `,"target_decode":`...), d.Decode)
	line = append(line, `,"next_tick_ms":`...)
	if d.NextMs > t.NowMs && d.NextMs-d.NextMs == 0 {
		line = appendReal(line, d.NextMs)
	} else {
		line = append(line, "null"...)
	}
	reason, err := json.Marshal(d.Reason)
	if err != nil {
		panic("job: a text does not marshal: " + err.Error())
	}
	line = append(append(append(line, `,"reason":`...), reason...), "}\n"...)
	_, _ = l.buffer.Write(line) // the buffer keeps the first error
}

func appendTarget(dst []byte, workers int) []byte {
	if workers == planner.Unchanged {
		return append(dst, "null"...)
	}
	return fmt.Append(dst, workers)
}

// loggedPlanner is a planner whose ticks are logged.
type loggedPlanner struct {
	planner.Planner
	log *tickLog
}

// OnTick implements [planner.Planner].
func (p loggedPlanner) OnTick(t *planner.Tick) (planner.Decision, error) {
	d, err := p.Planner.OnTick(t)
	if err == nil {
		p.log.add(t, d)
	}
	return d, err
}
