package radix

import (
	"fmt"
	"sort"
	"strings"
)

// Dump prints.
func (p *LeasePool) Dump() string {
	kids := map[ref][]ref{}
	for i := 1; i < len(p.nodes); i++ {
		if p.nodes[i].id != noPage {
			kids[p.nodes[i].parent] = append(kids[p.nodes[i].parent], ref(i))
		}
	}
	var show func(at ref) string
	show = func(at ref) string {
		var c []string
		for _, k := range kids[at] {
			c = append(c, show(k))
		}
		sort.Strings(c)
		in := strings.Join(c, "")
		if at == root {
			return in
		}
		s := "-"
		if p.side(at).has {
			s = "S"
		}
		return fmt.Sprintf("(%d l%d %s%s)", int(p.nodes[at].pages)*p.pageSize, min(p.nodes[at].locks, 1), s, in)
	}
	return fmt.Sprintf("[%d, %d, %d, %d] %s", p.free, p.evictable, p.window.free, p.window.evictable, show(root))
}
