package job

import (
	"strconv"
	"strings"

	"dynosim/gocore/report"
	"dynosim/gocore/strictjson"
)

// stopWhenLate is the option with limits on latencies that end a run.
const stopWhenLate = "stop_when_late"

var lateLatencies = map[string]report.Latency{
	"ttft_ms": report.TTFT, "itl_ms": report.ITL, "tpot_ms": report.TPOT, "e2e_ms": report.E2E,
}

// parseLate reads the limits that end a run, nil without any.
func parseLate(o *strictjson.Object) ([]report.LateLimit, error) {
	if !o.Given(stopWhenLate) {
		return nil, nil
	}
	if o.Given("faults") {
		return nil, &strictjson.FieldError{Field: stopWhenLate, Got: o.Shown(stopWhenLate),
			Want: "it left out beside faults: a request that is lost may begin again"}
	}
	var limits []report.LateLimit
	for term := range strings.SplitSeq(o.Text(stopWhenLate), ",") {
		limit, ok := lateLimit(term)
		for _, other := range limits {
			ok = ok && other.Of != limit.Of
		}
		if !ok {
			return nil, &strictjson.FieldError{Field: stopWhenLate, Got: strconv.Quote(strings.TrimSpace(term)),
				Want: "limits such as ttft_ms>2000:24,itl_ms>50:900, each of ttft_ms, itl_ms, tpot_ms and e2e_ms once"}
		}
		limits = append(limits, limit)
	}
	return limits, nil
}

// lateLimit reads one limit, such as ttft_ms>2000:24.
func lateLimit(term string) (limit report.LateLimit, ok bool) {
	name, rest, _ := strings.Cut(term, ">")
	ms, most, _ := strings.Cut(rest, ":")
	if limit.Of, ok = lateLatencies[strings.TrimSpace(name)]; !ok {
		return limit, false
	}
	var err error
	if limit.LimitMs, err = strconv.ParseFloat(strings.TrimSpace(ms), 64); err != nil || !(limit.LimitMs >= 0) {
		return limit, false
	}
	limit.Most, err = strconv.ParseInt(strings.TrimSpace(most), 10, 64)
	return limit, err == nil && limit.Most >= 0
}

// lateCounts returns what the report says of the limits that end a run.
func lateCounts(limits []report.LateLimit, counts []int64) []report.Value {
	var values []report.Value
	for i, limit := range limits {
		for name, of := range lateLatencies {
			if of == limit.Of {
				values = append(values, report.Value{Key: "late_" + name, Int: int(counts[i]), IsInt: true})
			}
		}
	}
	return values
}
