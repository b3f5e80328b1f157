package deploy

import (
	"strings"
	"testing"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/router"
	_ "dynosim/gocore/router/policies" // modes with settings
)

func mode(t *testing.T, name string) router.Mode {
	t.Helper()
	m, ok := router.FindMode(name)
	if !ok {
		t.Fatalf("no mode %s", name)
	}
	return m
}

// TestSeeds: routers draw with the seed of their configuration, else with that of the process.
func TestSeeds(t *testing.T) {
	for _, c := range []struct {
		mode, text string
		want       uint64
	}{
		{router.KVMode, `{}`, 7},
		{router.KVMode, `{"router_seed": 3}`, 3},
		{router.RoundRobinMode, `{"router_seed": 3}`, 7},
		{"power_of_two", `{}`, 7},
		{"power_of_two", `{"router_seed": 3}`, 3},
	} {
		r, _, err := ParseRouting(mode(t, c.mode), c.text, 7)
		if err != nil || r.Config.Seed != c.want {
			t.Errorf("%s, %s: got seed %d, %v, want %d", c.mode, c.text, r.Config.Seed, err, c.want)
		}
	}
	if r, _, err := ParseRouting(mode(t, router.RoundRobinMode), `{"router_temperature": 2}`, 0); err != nil ||
		r.Config.Temperature != 0 || r.Given.Temperature != 2 {
		t.Errorf("a mode that does not look at its configuration has %+v, %v", r, err)
	}
	for _, name := range []string{router.KVMode, router.RoundRobinMode, "power_of_two"} {
		if _, _, err := ParseRouting(mode(t, name), `{"router_seed": -1}`, 0); err == nil ||
			!strings.HasPrefix(err.Error(), "router_config: router_seed") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestStages: each pool has a router with numbers of its own, and a queue policy among its engine arguments replaces
// that of the router.
func TestStages(t *testing.T) {
	r, _, err := ParseRouting(mode(t, router.KVMode), `{}`, 1)
	if err != nil {
		t.Fatal(err)
	}
	lcfs, _ := router.ParseQueuePolicy("lcfs")
	pools := []Pool{{Args: engineargs.Args{BlockSize: 16}, Workers: 2},
		{Args: engineargs.Args{RouterQueuePolicy: "lcfs"}, Workers: 3}}
	two := r.Stages(pools, 101)
	if two[0].Stage != "prefill" || two[1].Stage != "decode" || two[0].Workers != 2 || two[1].Workers != 3 ||
		two[0].BlockSize != 16 {
		t.Errorf("got %+v, %+v", two[0], two[1])
	}
	if two[0].Config.TrackActiveBlocks || two[1].Config.TrackPrefillTokens {
		t.Error("routers of both pools look at the work of the other one")
	}
	if two[0].Config.QueuePolicy != r.Config.QueuePolicy || two[1].Config.QueuePolicy != lcfs {
		t.Errorf("got the policies %v and %v", two[0].Config.QueuePolicy, two[1].Config.QueuePolicy)
	}
	one := r.Stages(pools[1:], 102)
	if one[0].Stage != "" || one[0].Config.QueuePolicy != lcfs || !one[0].Config.TrackPrefillTokens {
		t.Errorf("got %+v", one[0])
	}
	if first, again, other := two[1].Rand.Uint64(), one[0].Rand.Uint64(),
		two[0].Rand.Uint64(); first != again || first == other {
		t.Errorf("streams: got %d, %d of the same and %d of another one", first, again, other)
	}
}

// TestMismatch: pools that hand prompts over have one engine, one scheduler and one block size.
func TestMismatch(t *testing.T) {
	plain := enginetest.Args(t, `{}`)
	if d := Mismatch(plain, plain); d != nil {
		t.Errorf("got %+v of equal pools", d)
	}
	for text, want := range map[string]Difference{
		`{"engine_type": "sglang"}`: {"engine_type", "vllm", "sglang"},
		`{"block_size": 32}`:        {"block_size", "64", "32"},
	} {
		if d := Mismatch(plain, enginetest.Args(t, text)); d == nil || *d != want {
			t.Errorf("%s: got %+v, want %+v", text, d, want)
		}
	}
	if d := Mismatch(plain, enginetest.Args(t, `{"scheduler": "vllm"}`)); d == nil || d.Argument != "scheduler" {
		t.Errorf("got %+v of two schedulers", d)
	}
}

// TestModel: durations that cannot be read name the option.
func TestModel(t *testing.T) {
	args := engineargs.Args{Profile: t.TempDir()}
	if _, err := Model("extra_engine_args", args); err == nil ||
		!strings.HasPrefix(err.Error(), "extra_engine_args: ") {
		t.Errorf("got %v", err)
	}
}
