package job

import (
	"fmt"

	"dynosim/gocore/replay"
	"dynosim/gocore/replay/online"
	"dynosim/gocore/strictjson"
)

// The values of replay_mode.
const (
	offlineMode = "offline"
	onlineMode  = "online"
)

// checkOnline refuses options that a replay in real time does not support.
func checkOnline(o *strictjson.Object, d deployment) error {
	if o.Text("replay_mode") != onlineMode {
		return nil
	}
	if d.disaggregated {
		return fmt.Errorf("replay_mode: got %s, want offline with prefill and decode workers", o.Shown("replay_mode"))
	}
	for _, known := range options {
		if known.offline && !o.AtDefault(known.Name) {
			why := "an online replay runs to its end"
			if known.group == outputGroup {
				why = "it shows virtual time"
			}
			return &strictjson.FieldError{Field: known.Name, Got: o.Shown(known.Name), Want: "replay_mode offline with it: " + why}
		}
	}
	return nil
}

// replay carries out the run in virtual time or in real time. A run in real time counts no worker seconds.
func (r *run) replay(cfg replay.Config) (replay.Outcome, error) {
	if !r.online {
		return replay.Run(cfg)
	}
	collector, err := online.Run(cfg)
	return replay.Outcome{Collector: collector}, err
}
