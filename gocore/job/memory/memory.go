// Package memory determines how much more memory this process may take: the least of what its control groups, its
// resource limits and the machine leave.
package memory

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
)

// Room is memory that may still be taken.
type Room struct {
	Bytes  int64
	By     string // what bounds it, as messages name it
	Usable int64  // what a run should take of it, see below
}

// Go copies a growing slice to a larger place, and never gives address space back. So under a limit on the address
// space, a run that has taken two fifths may fail at the next step, with an error that ends the process. Other limits
// count only memory in use.
const (
	usableAddressSpace = 0.4
	usableMemory       = 0.75
)

// Free returns the least room that any of the limits leaves. It is Unbounded if no limit is known.
func Free() Room { return free(os.DirFS("/"), limits()) }

// Unbounded is the room without a known limit.
const Unbounded = math.MaxInt64

// chosen is the limit that the environment variable GOMEMLIMIT sets. Later limits are set by runs.
var chosen = debug.SetMemoryLimit(-1)

// limit bounds the memory of a process; 0 is no limit.
type limit struct {
	bytes, used int64
	by          string
	usable      float64 // fraction
}

func free(root fs.FS, limits []limit) Room {
	least := Room{Unbounded, "", Unbounded}
	consider := func(bytes int64, by string, fraction float64) {
		bytes = max(0, bytes)
		if usable := int64(float64(bytes) * fraction); usable < least.Usable {
			least = Room{bytes, by, usable}
		}
	}
	if info := table(root, "proc/meminfo"); info["MemAvailable:"] > 0 {
		consider((info["MemAvailable:"]+info["SwapFree:"])*1024, "free memory", usableMemory)
	}
	for _, l := range append(limits, groups(root)...) {
		consider(l.bytes-l.used, l.by, l.usable)
	}
	return least
}

// groups returns the limits of the control groups that hold this process, of version 1 or 2. In a container the path of
// its group may be that of the host; its own files are then at the top.
func groups(root fs.FS) []limit {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	var found []limit
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		mount, maximum, usage, inactive := "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
		switch {
		case parts[0] == "0" && parts[1] == "":
		case strings.Contains(","+parts[1]+",", ",memory,"):
			mount, maximum, usage, inactive = "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
				"total_inactive_file"
		default:
			continue
		}
		for group := path.Join("/", parts[2]); ; group = path.Dir(group) {
			folder := path.Join(mount, group)
			bytes, limited := number(root, path.Join(folder, maximum))
			if used, ok := number(root, path.Join(folder, usage)); limited && ok {
				// The kernel drops the cache of files that are not in use before it refuses memory.
				used -= table(root, path.Join(folder, "memory.stat"))[inactive]
				found = append(found, limit{bytes, used, "the memory limit of the control group", usableMemory})
			}
			if group == "/" {
				break
			}
		}
	}
	return found
}

// number reads a file of one number, not "max", which stands for no limit.
func number(root fs.FS, name string) (int64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// table reads a file of names and numbers.
func table(root fs.FS, name string) map[string]int64 {
	values := map[string]int64{}
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return values
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) >= 2 {
			if n, err := strconv.ParseInt(words[1], 10, 64); err == nil {
				values[words[0]] = n
			}
		}
	}
	return values
}

// Used returns what the Go code of this process has taken from the system and not given back.
func Used() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}

// Text returns a number of bytes as messages show it.
func Text(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%d MB", bytes>>20)
	}
	return fmt.Sprintf("%.1f GB", float64(bytes)/(1<<30))
}
