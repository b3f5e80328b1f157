package job

import (
	"dynosim/gocore/engineargs"
)

// link is what is known of hand-offs between two pools, for reports.
type link struct {
	BytesPerToken int     `json:"bytes_per_token"`
	BandwidthGBs  float64 `json:"bandwidth_gb_s"`
	MsPerBlock    float64 `json:"ms_per_block,omitempty"` // instead of both
	// Assumed are the arguments of these that were not given.
	Assumed []string `json:"assumed,omitempty"`
}

// takesNoTime reports whether hand-offs are free.
func (l link) takesNoTime() bool { return l.BytesPerToken == 0 || l.BandwidthGBs <= 0 }

// withLink returns the deployment with what its hand-offs need and was not given. Predictions for a real engine, those
// of the AIC SDK or by the engine's own rules, get a standard bandwidth, and with the SDK the bytes of a token of that
// model. The mocker's rules with other durations keep the reference's hand-offs, which take no time. The warning says
// so, "" if that was asked for or is not so.
func (s *sdk) withLink(d deployment) (deployment, *link, string, error) {
	if !d.disaggregated {
		return d, nil, "", nil
	}
	t, asksSDK := &d.prefill.Transfer, d.prefill.AIC.Backend != ""
	if t.MsPerBlock > 0 {
		return d, &link{MsPerBlock: t.MsPerBlock}, "", nil
	}
	predicts := asksSDK || d.prefill.Scheduler != engineargs.Dynamo
	found := &link{}
	if predicts && !t.SpeedGiven {
		t.BandwidthGBs = engineargs.StandardBandwidthGBs
		found.Assumed = append(found.Assumed, "kv_transfer_bandwidth")
	}
	free := t.BandwidthGBs <= 0 && t.SpeedGiven || t.BytesPerToken == 0 && t.BytesGiven
	if asksSDK && !t.BytesGiven && !free {
		session, err := s.sessions.OfMemory("prefill_engine_args", d.prefill)
		if err != nil {
			return d, nil, "", err
		}
		if t.BytesPerToken, err = session.KVBytes(); err != nil {
			return d, nil, "", err
		}
		if t.BytesPerToken > 0 {
			found.Assumed = append(found.Assumed, "kv_bytes_per_token")
		}
	}
	found.BytesPerToken, found.BandwidthGBs = t.BytesPerToken, t.BandwidthGBs
	if free || !found.takesNoTime() {
		return d, found, "", nil
	}
	missing := "kv_transfer_bandwidth (GB/s)"
	switch {
	case t.BytesPerToken == 0 && t.BandwidthGBs <= 0:
		missing = "kv_bytes_per_token and kv_transfer_bandwidth (GB/s)"
	case t.BytesPerToken == 0:
		missing = "kv_bytes_per_token"
	}
	return d, found, "prefill_engine_args: hand-offs of KV take no time without " + missing, nil
}
