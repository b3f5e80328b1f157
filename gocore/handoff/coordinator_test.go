package handoff

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestCoordinator tells coordinators facts one after the other. want is the first action and then, for each fact, the
// action it leads to; "-" for none, "error" for a fact that cannot be true.
func TestCoordinator(t *testing.T) {
	for _, c := range []struct {
		name  string
		order Order
		facts []Fact
		want  string
	}{
		{
			name: "source first", order: SourceFirst,
			facts: []Fact{SourceHeld, DestinationReserved, Transferred, Activated, SourceReleased},
			want:  "submit, reserve, start transfer, activate, release, complete",
		},
		{
			name: "destination first", order: DestinationFirst,
			facts: []Fact{DestinationReserved, SourceHeld, Transferred, Activated, SourceReleased},
			want:  "reserve, submit, start transfer, activate, release, complete",
		},
		{
			name: "repeated facts change nothing", order: SourceFirst,
			facts: []Fact{SourceHeld, SourceHeld, DestinationReserved, SourceHeld, DestinationReserved, Transferred,
				Transferred},
			want: "submit, reserve, -, start transfer, -, -, activate, -",
		},
		{
			name: "facts before their time are errors and change nothing", order: SourceFirst,
			facts: []Fact{DestinationReserved, Transferred, SourceHeld, SourceReleased, Activated, DestinationReserved},
			want:  "submit, error, error, reserve, error, error, start transfer",
		},
		{
			name: "the source is held before Submit", order: DestinationFirst,
			facts: []Fact{SourceHeld, DestinationReserved, SourceHeld},
			want:  "reserve, error, submit, start transfer",
		},
		{
			name: "rejected by the source", order: SourceFirst,
			facts: []Fact{Failed, SourceCanceled},
			want:  "submit, cancel source, complete",
		},
		{
			name: "refused by the destination", order: SourceFirst,
			facts: []Fact{SourceHeld, Failed, SourceCanceled, DestinationCanceled},
			want:  "submit, reserve, cancel source, cancel destination, complete",
		},
		{
			name: "refused by the destination, which is asked first", order: DestinationFirst,
			facts: []Fact{Failed, DestinationCanceled},
			want:  "reserve, cancel destination, complete",
		},
		{
			name: "rejected by the source, which is asked last", order: DestinationFirst,
			facts: []Fact{DestinationReserved, Failed, SourceCanceled, DestinationCanceled},
			want:  "reserve, submit, cancel source, cancel destination, complete",
		},
		{
			name: "canceled during the transfer, whose end comes too late", order: SourceFirst,
			facts: []Fact{SourceHeld, DestinationReserved, Canceled, Transferred, SourceCanceled, Activated,
				DestinationCanceled},
			want: "submit, reserve, start transfer, cancel source, -, cancel destination, -, complete",
		},
		{
			name: "canceled before the source is released", order: SourceFirst,
			facts: []Fact{SourceHeld, DestinationReserved, Transferred, Activated, Canceled, SourceReleased,
				SourceCanceled, DestinationCanceled},
			want: "submit, reserve, start transfer, activate, release, cancel source, -, cancel destination, complete",
		},
		{
			name: "failing twice is failing once", order: SourceFirst,
			facts: []Fact{SourceHeld, Failed, Canceled, Failed, SourceCanceled, Failed, DestinationCanceled},
			want:  "submit, reserve, cancel source, -, -, cancel destination, -, complete",
		},
		{
			name: "answers to cancels that are not out yet do not count", order: SourceFirst,
			facts: []Fact{SourceCanceled, SourceHeld, Canceled, DestinationCanceled, SourceCanceled, SourceCanceled,
				DestinationCanceled},
			want: "submit, error, reserve, cancel source, -, cancel destination, -, complete",
		},
		{
			name: "nothing happens after the end", order: SourceFirst,
			facts: []Fact{Failed, SourceCanceled, SourceHeld, Failed, SourceCanceled, DestinationCanceled, Canceled},
			want:  "submit, cancel source, complete, -, -, -, -, -",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			coordinator, first := New(c.order)
			got := []string{first.String()}
			for _, f := range c.facts {
				got = append(got, outcome(coordinator.Handle(f)))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
}

func outcome(a Action, err error) string {
	switch {
	case err != nil:
		return "error"
	case a == None:
		return "-"
	default:
		return a.String()
	}
}

func TestOrderError(t *testing.T) {
	c, _ := New(SourceFirst)
	_, err := c.Handle(Transferred)
	const want = `hand-off: "transferred" came before it was asked for, the last action was "submit"`
	var order *OrderError
	if !errors.As(err, &order) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// FuzzCoordinator tells a coordinator any facts in any order, among them those it waits for, and then answers whatever
// it asks for until it is done.
func FuzzCoordinator(f *testing.F) {
	f.Add(false, []byte{0, 1, 2, 3, 4})
	f.Add(true, []byte{1, 0, 2, 3, 4})
	f.Add(false, []byte{0, 7, 5, 6})
	f.Add(true, []byte{255, 255, 8, 255, 255})
	f.Add(false, []byte{4, 3, 2, 1, 0, 0, 8, 1, 255})
	f.Fuzz(func(t *testing.T, destinationFirst bool, script []byte) {
		order := SourceFirst
		if destinationFirst {
			order = DestinationFirst
		}
		if err := checkScript(order, script); err != nil {
			t.Fatal(err)
		}
	})
}

// checkScript reads each byte as a fact, or from 128 on as the answer to the action that was asked for last.
func checkScript(order Order, script []byte) error {
	c, first := New(order)
	actions := []Action{first}
	gaveUp := false
	tell := func(f Fact) error {
		wasDone, before := c.Done(), c
		action, err := c.Handle(f)
		if (err != nil || wasDone) && (action != None || c != before) {
			return fmt.Errorf("%v changed something (%v)", f, err)
		}
		gaveUp = gaveUp || !wasDone && (f == Failed || f == Canceled)
		if action == None {
			return nil
		}
		actions = append(actions, action)
		return checkActions(order, actions, gaveUp)
	}
	for _, b := range script {
		f := Fact(b) % (Canceled + 1)
		if answer, waits := answerTo(c.Awaiting()); b >= 128 && waits {
			f = answer
		}
		if err := tell(f); err != nil {
			return fmt.Errorf("%v: %w", actions, err)
		}
	}
	for !c.Done() {
		answer, waits := answerTo(c.Awaiting())
		before := len(actions)
		if err := tell(answer); err != nil || !waits || len(actions) != before+1 {
			return fmt.Errorf("%v: no end: %v", actions, err)
		}
	}
	if c.Succeeded() == gaveUp {
		return fmt.Errorf("%v: succeeded %t", actions, c.Succeeded())
	}
	return nil
}

// answerTo returns the fact that answers an action.
func answerTo(a Action) (Fact, bool) {
	for f, answers := range answered {
		if answers == a && a != None {
			return Fact(f), true
		}
	}
	return 0, false
}

// checkActions checks everything that was asked for so far.
func checkActions(order Order, actions []Action, gaveUp bool) error {
	at := map[Action]int{}
	for i, a := range actions {
		if _, twice := at[a]; twice {
			return fmt.Errorf("%v was asked for twice", a)
		}
		at[a] = i
	}
	for i, a := range actions {
		if i < len(chains[order]) && a == chains[order][i] || a >= CancelSource {
			continue
		}
		return fmt.Errorf("%v is out of order", a)
	}
	if _, done := at[Complete]; !done {
		return nil
	}
	if last := actions[len(actions)-1]; last != Complete {
		return fmt.Errorf("%v came after the end", last)
	}
	for _, side := range []struct{ asked, cancel Action }{{Submit, CancelSource}, {Reserve, CancelDestination}} {
		_, asked := at[side.asked]
		if _, canceled := at[side.cancel]; canceled != (gaveUp && asked) {
			return fmt.Errorf("gave up %t, %v: %t, %v: %t", gaveUp, side.asked, asked, side.cancel, canceled)
		}
	}
	return nil
}

func TestDelay(t *testing.T) {
	for _, c := range []struct {
		name            string
		transfer        Transfer
		prompt, missing int
		want            float64
	}{
		{"the whole prompt", Transfer{BytesPerToken: 1_000_000, BandwidthGBs: 64, Mode: FullPrompt}, 128, 64, 2},
		{"what is missing", Transfer{BytesPerToken: 1_000_000, BandwidthGBs: 64, Mode: DestinationMissing}, 192, 64, 1},
		{"in whole blocks", Transfer{BytesPerToken: 131072, BandwidthGBs: 64, Mode: DestinationMissing}, 1000, 1024,
			2.0971520000000003},
		{"without rounding", Transfer{BytesPerToken: 131072, BandwidthGBs: 64, Mode: FullPrompt}, 1000, 1024, 2.048},
		{"nothing is missing", Transfer{BytesPerToken: 1_000_000, BandwidthGBs: 64, Mode: DestinationMissing}, 128, 0,
			0},
		{"no time", Transfer{}, 128, 128, 0},
		{"no bytes", Transfer{BandwidthGBs: 64}, 128, 128, 0},
		{"bandwidth 0 is no delay", Transfer{BytesPerToken: 1_000_000}, 128, 128, 0},
	} {
		if got := c.transfer.DelayMs(c.prompt, c.missing); got != c.want {
			t.Errorf("%s: got %v ms, want %v", c.name, got, c.want)
		}
	}
}

func TestBlockMs(t *testing.T) {
	for _, c := range []struct {
		transfer Transfer
		want     float64
	}{
		{Transfer{BytesPerToken: 1_000_000, BandwidthGBs: 64}, 0.25},
		{Transfer{MsPerBlock: 0.5}, 0.5},
		{Transfer{BytesPerToken: 1_000_000}, 0},
		{Transfer{}, 0},
	} {
		if got := c.transfer.BlockMs(16); got != c.want {
			t.Errorf("%+v: got %v ms, want %v", c.transfer, got, c.want)
		}
	}
}
