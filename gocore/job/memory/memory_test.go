package memory

import (
	"testing"
	"testing/fstest"
)

func TestLeastRoom(t *testing.T) {
	const meminfo = "MemTotal: 100 kB\nMemAvailable:  1000 kB\nSwapFree: 24 kB\n"
	tests := []struct {
		name   string
		files  map[string]string
		limits []limit
		want   Room
	}{
		{"nothing is known", nil, nil, Room{Unbounded, "", Unbounded}},
		{"machine", map[string]string{"proc/meminfo": meminfo}, nil, Room{1024 * 1024, "free memory", 768 * 1024}},
		{"resource limit", map[string]string{"proc/meminfo": meminfo}, []limit{{5000, 2000, "ulimit -v", 0.4}},
			Room{3000, "ulimit -v", 1200}},
		{"more than all is used", nil, []limit{{5000, 9000, "ulimit -v", 0.4}}, Room{0, "ulimit -v", 0}},
		{"version 2", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.current": "10\n",
			"sys/fs/cgroup/a/memory.max": "9000\n", "sys/fs/cgroup/a/memory.current": "4000\n",
			"sys/fs/cgroup/a/memory.stat": "anon 3000\ninactive_file 500\n",
		}, nil, Room{5500, "the memory limit of the control group", 4125}},
		{"version 1", map[string]string{
			"proc/self/cgroup": "9:cpu:/x\n4:hugetlb,memory:/job\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "7000",
			"sys/fs/cgroup/memory/job/memory.usage_in_bytes": "3000",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712",
			"sys/fs/cgroup/memory/memory.usage_in_bytes":     "1",
			"sys/fs/cgroup/memory/job/memory.stat":           "total_inactive_file 100\n",
		}, nil, Room{4100, "the memory limit of the control group", 3075}},
		{"a container that sees the path of the host", map[string]string{
			"proc/self/cgroup": "0::/../../pod\n", "sys/fs/cgroup/memory.max": "8000",
			"sys/fs/cgroup/memory.current": "1000",
		}, nil, Room{7000, "the memory limit of the control group", 5250}},
		{"half a group", map[string]string{"proc/self/cgroup": "0::/\nnonsense\n", "sys/fs/cgroup/memory.max": "8000"},
			nil, Room{Unbounded, "", Unbounded}},
	}
	for _, test := range tests {
		root := fstest.MapFS{}
		for name, text := range test.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := free(root, test.limits); got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestThisProcess(t *testing.T) {
	if room := Free(); room.Bytes <= 0 || room.By == "" {
		t.Errorf("got %+v", room)
	}
	before := Used()
	taken := make([]byte, 64<<20)
	for i := 0; i < len(taken); i += 4096 {
		taken[i] = 1
	}
	if grown := Used() - before; grown < 60<<20 || taken[4096] != 1 {
		t.Errorf("64 MB are %s", Text(grown))
	}
}

func TestText(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 MB", 300 << 20: "300 MB", 5 << 29: "2.5 GB"} {
		if got := Text(bytes); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
