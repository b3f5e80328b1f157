package workload

import "fmt"

// loadDynamo reads recordings of requests. If they belong to sessions of agents, they wait for each other and for their
// tools as they did then; otherwise each starts at its own time.
func loadDynamo(sources []Source, spec TraceSpec) (*Workload, error) {
	rec, err := readRecording(sources, spec.Poll)
	if err != nil {
		return nil, err
	}
	if err := rec.checkBlockSize(spec.TraceBlockSize); err != nil {
		return nil, err
	}
	agentic, err := rec.context(sources)
	if err != nil {
		return nil, err
	}
	rows, err := rec.lower(agentic)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sourceNames(sources), err)
	}
	spec.TraceBlockSize = rec.blockSize
	w := &Workload{File: sourceNames(sources), Format: Dynamo}
	for _, source := range sources {
		w.sources = append(w.sources, source.Name)
	}
	w.places = make([]place, len(rows))
	for i := range rows {
		w.places[i] = rows[i].call.at
	}
	if agentic {
		err = addAgentic(newAgenticLoader(w, spec), rows)
	} else {
		err = addPlain(newSessionLoader(w, spec), rows)
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

func addPlain(l *sessionLoader, rows []lowered) error {
	for i := range rows {
		l.line = i + 1
		if err := l.add(rows[i].plainRow()); err != nil {
			return l.w.fault(int32(i), err)
		}
	}
	return l.finish()
}

func addAgentic(l *agenticLoader, rows []lowered) error {
	for i := range rows {
		r := rows[i].plainRow()
		r.given |= fieldRequestID | fieldSessionID
		r.requestID, r.sessionID = rows[i].call.id, rows[i].call.session
		r.delay, r.toolWait = rows[i].delayMs, rows[i].toolWaitMs
		for _, earlier := range rows[i].waitFor {
			r.waitFor = append(r.waitFor, rows[earlier].call.id)
		}
		l.line = i + 1
		if err := l.add(r); err != nil {
			return l.w.fault(int32(i), err)
		}
	}
	return l.finish()
}

// plainRow returns the row that a Mooncake trace would have for the request.
func (r *lowered) plainRow() *row {
	return &row{
		timestamp:    r.timestampMs,
		inputLength:  uint64(r.call.inputLength),
		outputLength: uint64(r.call.outputTokens),
		hashIDs:      r.call.hashIDs,
		given:        fieldTimestamp | fieldInputLength | fieldOutputLength | fieldHashIDs,
	}
}
