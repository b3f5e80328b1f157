package traffic

import (
	"cmp"
	"math"
	"slices"

	"dynosim/gocore/workload/tracefile"
)

// bailianBlock is the number of tokens of a block in the published files.
const bailianBlock = 16

// bailianRow is a request and what it says about its conversation.
type bailianRow struct {
	Request
	chat, parent string
}

// readBailian reads the Qwen-Bailian traces, JSONL: chat_id, parent_chat_id (-1 for none), timestamp in seconds,
// input_length, output_length and hash_ids. Each row has the whole prompt. A request follows its parent if no other one
// does already and the parent is in the file; otherwise it begins a session of its own.
func readBailian(c *collector, sources []Source) error {
	var rows []bailianRow
	var ids []uint64
	c.Trace.BlockSize = c.Options.BlockSize
	if c.Trace.BlockSize == 0 {
		c.Trace.BlockSize = bailianBlock
	}
	err := eachRecord(c, sources[0], func(d *tracefile.Document, place func() int32) error {
		row := bailianRow{Request: Request{Session: -1, After: -1}}
		var start int64
		ids = ids[:0]
		given, err := d.Object([]tracefile.Key{
			{Name: "timestamp", Read: intoTime(d.Seconds, &start)},
			{Name: "input_length", Read: intoCount(d, &row.Input, maxInput)},
			{Name: "output_length", Read: intoCount(d, &row.Output, maxOutput)},
			{Name: "chat_id", Read: intoText(d, &row.chat)},
			{Name: "parent_chat_id", Read: intoText(d, &row.parent)},
			{Name: "hash_ids", Read: func() (err error) {
				ids, err = d.Counts(ids, math.MaxUint64, maxBlockIDs)
				return err
			}},
		})
		switch {
		case err != nil:
			return err
		case !has(given, 0):
			return d.Missing("timestamp", "the arrival in seconds")
		case !has(given, 1):
			return d.Missing("input_length", "the tokens of the prompt")
		}
		row.Place, row.StartNs = place(), c.at(start)
		switch {
		case !has(given, 2):
			return c.leaveOut(failed)
		case len(rows) == MaxRequests:
			return d.Faultf("more than %d requests, the limit", MaxRequests)
		}
		if row.BlockIDs, err = c.blocks(ids); err != nil {
			return err
		}
		rows = append(rows, row)
		return nil
	})
	if err != nil {
		return err
	}
	return addConversations(c, rows)
}

// addConversations adds rows in the order of their arrivals, each after its parent. The pause is the distance of the
// two arrivals: the files do not say when an answer was complete.
func addConversations(c *collector, rows []bailianRow) error {
	slices.SortStableFunc(rows, func(a, b bailianRow) int { return cmp.Compare(a.StartNs, b.StartNs) })
	free := map[string]int32{} // requests that none follows yet, by chat_id
	for i := range rows {
		row := &rows[i]
		if parent, known := free[row.parent]; known && row.parent != "" {
			delete(free, row.parent)
			row.After = parent
			row.DelayNs = row.StartNs - c.Requests[parent].StartNs
			row.Session = c.Requests[parent].Session
		} else if row.chat != "" {
			row.Session = c.session("chat_" + row.chat)
		}
		before := len(c.Requests)
		if err := c.add(row.Request); err != nil {
			return err
		}
		if len(c.Requests) > before && row.chat != "" {
			free[row.chat] = int32(before)
		}
	}
	return nil
}
