package session

import (
	"sync"

	"dynosim/gocore/timing"
)

// predictions are those of all sessions of the process.
var predictions = memory{known: map[remembered]float64{}}

// memory holds predictions, up to a limit beyond which it forgets everything. It is safe for concurrent use.
type memory struct {
	mu    sync.Mutex
	known map[remembered]float64
}

type remembered struct {
	session  int
	question timing.Question
}

// memoryLimit keeps a process below some 200 MB of predictions.
const memoryLimit = 2_000_000

// lookup returns room for all answers with the known ones in place, and the indices of the others.
func (m *memory) lookup(session int, questions []timing.Question) (answers []timing.Answer, unknown []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	answers = make([]timing.Answer, len(questions))
	for i, q := range questions {
		ms, ok := m.known[remembered{session, q}]
		if !ok {
			unknown = append(unknown, i)
			continue
		}
		answers[i].Ms = ms
	}
	return answers, unknown
}

func (m *memory) remember(session int, questions []timing.Question, answers []timing.Answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) > memoryLimit {
		clear(m.known)
	}
	for i, q := range questions {
		if answers[i].Err == nil {
			m.known[remembered{session, q}] = answers[i].Ms
		}
	}
}
