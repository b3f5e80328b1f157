package router

// askedReplicas are the replicas of a router that a [Decider] decides for, which says how many there are when it
// begins: until then there is one. Each has books of its own. All are asked again whenever a request of any of them has
// moved on, as one that keeps requests may have none at the workers.
type askedReplicas struct {
	Replicas
	options Options
	first   *Asked
	begun   bool
}

// newAskedReplicas makes a router, or its replicas, that ask Options.Decider.
func newAskedReplicas(o Options) *askedReplicas {
	first := NewAsked(o)
	return &askedReplicas{Replicas: *NewReplicas(first), options: o, first: first}
}

var (
	_ Elastic  = (*askedReplicas)(nil)
	_ Ticker   = (*askedReplicas)(nil)
	_ Finisher = (*askedReplicas)(nil)
)

// Submit implements [Router].
func (r *askedReplicas) Submit(q Request, nowMs float64) ([]Admission, error) {
	if err := r.begin(nowMs); err != nil {
		return nil, err
	}
	return r.Replicas.Submit(q, nowMs)
}

// begin lets the first replica begin, and makes the others with what it knows of workers and caches.
func (r *askedReplicas) begin(nowMs float64) error {
	if r.begun {
		return nil
	}
	r.begun = true
	wishes, err := r.first.begin(nowMs)
	if err != nil {
		return &DecisionError{AtMs: nowMs, ID: -1, Err: err}
	}
	all := []*Asked{r.first}
	for n := 1; n < wishes.Replicas; n++ {
		a := r.first.replica(r.options, n)
		all, r.of = append(all, a), append(r.of, a)
	}
	if wishes.MetricsMs > 0 {
		shareReports(all, wishes.MetricsMs)
		r.first.reports.poll(nowMs)
	}
	return nil
}

// PrefillCompleted implements [Router].
func (r *askedReplicas) PrefillCompleted(id int32, nowMs float64) ([]Admission, error) {
	n := r.at[id]
	admitted, err := r.Replicas.PrefillCompleted(id, nowMs)
	return r.others(n, admitted, err, nowMs)
}

// Free implements [Router].
func (r *askedReplicas) Free(id int32, nowMs float64) ([]Admission, error) {
	n := r.at[id]
	admitted, err := r.Replicas.Free(id, nowMs)
	return r.others(n, admitted, err, nowMs)
}

// Cancel implements [Router].
func (r *askedReplicas) Cancel(id int32, nowMs float64) ([]Admission, error) {
	n := r.at[id]
	admitted, err := r.Replicas.Cancel(id, nowMs)
	return r.others(n, admitted, err, nowMs)
}

// others adds what the other replicas admit after replica n was asked.
func (r *askedReplicas) others(n int32, admitted []Admission, err error, nowMs float64) ([]Admission, error) {
	if err != nil || len(r.of) == 1 {
		return admitted, err
	}
	r.admitted = append(r.admitted[:0], admitted...)
	for i, one := range r.of {
		if int32(i) == n {
			continue
		}
		more, err := one.(*Asked).again(Freed, nowMs)
		r.admitted = append(r.admitted, more...)
		if err != nil {
			return r.admitted, err
		}
	}
	return r.admitted, nil
}
