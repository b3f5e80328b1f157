package job

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"dynosim/gocore/engineargs"
)

// withModel completes engine arguments that name a model, see [engineargs.Expand]. The option model is an engine
// argument of all pools. Descriptions that are wrong in another way stay as they are. It opens the config.json of a
// model, as all else of a pool follows from it.
func withModel(config string) (string, error) {
	members := map[string]json.RawMessage{}
	if json.Unmarshal([]byte(config), &members) != nil {
		return config, nil
	}
	changed := false
	var name string
	if json.Unmarshal(members["model"], &name) == nil && name != "" {
		if err := shareModel(members, name); err != nil {
			return config, err
		}
		changed = true
	}
	for _, option := range []string{"extra_engine_args", "prefill_engine_args", "decode_engine_args"} {
		text, given := textOf(members[option])
		if !given {
			continue
		}
		full, err := engineargs.Expand(text, func(path string) ([]byte, error) { return os.ReadFile(modelFile(path)) })
		if err != nil {
			return config, fmt.Errorf("%s: %w", option, err)
		}
		if full != text {
			members[option], _ = json.Marshal(full)
			changed = true
		}
	}
	if !changed {
		return config, nil
	}
	all, err := json.Marshal(members)
	return string(all), err
}

// shareModel moves the option model to the engine arguments.
func shareModel(members map[string]json.RawMessage, name string) error {
	delete(members, "model")
	over, err := json.Marshal(map[string]string{"model": name})
	if err != nil {
		return err
	}
	for _, option := range []string{"extra_engine_args", "prefill_engine_args", "decode_engine_args"} {
		text, given := textOf(members[option])
		if !given && (option != "extra_engine_args" || wantsPools(members)) {
			continue
		}
		flat, err := engineargs.Flat(text)
		if err != nil {
			return fmt.Errorf("%s: %w", option, err)
		}
		if text, err = engineargs.Overlay(flat, string(over)); err != nil {
			return fmt.Errorf("%s: %w", option, err)
		}
		members[option], _ = json.Marshal(text)
	}
	return nil
}

// modelFile returns the config.json at a path, which may be its folder.
func modelFile(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, "config.json")
	}
	return path
}
