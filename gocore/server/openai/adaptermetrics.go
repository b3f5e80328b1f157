package openai

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// adapterMetrics show which adapters have requests, as gateways read it.
type adapterMetrics struct{ served *served }

var adapterInfo = prometheus.NewDesc("vllm:lora_requests_info",
	"The adapters of requests that run and that wait, in its labels; the value is the time.",
	[]string{"max_lora", "running_lora_adapters", "waiting_lora_adapters"}, nil)

// Describe implements [prometheus.Collector].
func (adapterMetrics) Describe(to chan<- *prometheus.Desc) { to <- adapterInfo }

// Collect implements [prometheus.Collector].
func (a adapterMetrics) Collect(to chan<- prometheus.Metric) {
	var running, waiting []string
	most := 0
	for _, m := range a.served.all() {
		most += m.MaxAdapters
		for _, adapter := range m.loaded() {
			w, r := adapter.load()
			if r > 0 {
				running = append(running, adapter.name)
			}
			if w > 0 {
				waiting = append(waiting, adapter.name)
			}
		}
	}
	to <- prometheus.MustNewConstMetric(adapterInfo, prometheus.GaugeValue, float64(time.Now().UnixNano())/1e9,
		strconv.Itoa(most), strings.Join(running, ","), strings.Join(waiting, ","))
}
