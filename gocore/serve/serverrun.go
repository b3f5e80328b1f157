package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/deploy"
	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/enginemetrics"
	"dynosim/gocore/guard"
	"dynosim/gocore/handoff"
	"dynosim/gocore/live"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/router"
	"dynosim/gocore/server/answers"
	"dynosim/gocore/server/cluster"
	"dynosim/gocore/server/deployment"
	"dynosim/gocore/server/openai"
	"dynosim/gocore/server/tokens"
	"dynosim/gocore/timing"
)

// loadedServer is what the models of a server need, loaded.
type loadedServer struct {
	models   []loadedModel
	warnings []string
}

type loadedModel struct {
	spec      *servedModel
	pools     []inputs // with the arguments of each pool
	tokenizer tokens.Tokenizer
	context   int // tokens of the longest sequence of the model, 0 if that is not known
	recording *answers.Recording
	record    *os.File // that is written, nil for none
}

// load reads files, and asks the AIC SDK what is needed before requests can be served.
func (s *serverSpec) load(stop *Stop, ask Ask, log *slog.Logger) (*loadedServer, error) {
	l := &loadedServer{}
	for i := range s.models {
		m, err := s.models[i].load(stop, ask, log)
		if err != nil {
			l.close()
			return nil, err
		}
		for j := range m.pools {
			l.warnings = append(l.warnings, m.pools[j].warnings...)
		}
		l.models = append(l.models, m)
	}
	return l, nil
}

// close ends the tokenizers.
func (l *loadedServer) close() {
	for i := range l.models {
		l.models[i].tokenizer.Close()
	}
}

func (m *servedModel) load(stop *Stop, ask Ask, log *slog.Logger) (loadedModel, error) {
	loaded := loadedModel{spec: m}
	for _, inPython := range []struct{ field, name, question string }{
		{"router", m.asked, router.IsThere}, {"timing_model", m.timing, `{"timing":"","why":"begin"}`},
		{"scheduler_policy", m.policy, `{"scheduler":"","why":"begin"}`},
	} {
		if inPython.name == "" {
			continue
		}
		if _, err := ask(inPython.question); err != nil {
			return loaded, fmt.Errorf("%s: got %q, want it left out: this program has no Python", inPython.field,
				inPython.name)
		}
	}
	for _, p := range m.pools {
		in := inputs{args: p.Args}
		if err := in.loadTiming(stop, ask); err != nil {
			return loaded, err
		}
		loaded.pools = append(loaded.pools, in)
	}
	if m.recording != "" && m.responses == answers.Recorded {
		file, err := os.Open(m.recording)
		if err != nil {
			return loaded, unreadable("response_file", m.recording, err)
		}
		defer func() { _ = file.Close() }()
		if loaded.recording, err = answers.ReadRecording(file); err != nil {
			return loaded, fmt.Errorf(`response_file: got %q, want lines of {"prompt": "...", "response": "..."}: %w`,
				m.recording, err)
		}
	}
	if err := loaded.loadTokenizer(log); err != nil || m.record == "" {
		return loaded, err
	}
	var err error
	if loaded.record, err = os.Create(m.record); err != nil {
		return loaded, fmt.Errorf("record: got %q, want a file that can be written: %w", m.record, errors.Unwrap(err))
	}
	return loaded, nil
}

// loadTokenizer finds the tokenizer of the model, and the size of a token's KV if transfers need it.
func (l *loadedModel) loadTokenizer(log *slog.Logger) error {
	if l.spec.path == tokens.BuiltinBytes {
		l.tokenizer = tokens.Bytes{}
		return nil
	}
	folder, err := modelFolder(l.spec.path, l.spec.cache, tokens.BuiltinBytes+", ")
	if err != nil {
		return err
	}
	if l.spec.kvType != "" {
		p := &l.pools[0]
		if p.args.Transfer.BytesPerToken, err = card.KVBytesPerToken(folder, l.spec.kvType); err != nil {
			p.warnings = append(p.warnings, fmt.Sprintf("kv_bytes_per_token: %v; transfers take no time", err))
		}
	}
	if l.context, err = card.MaxContextLength(folder); err != nil {
		return fmt.Errorf("model_path: got %q, want a folder whose config.json is that of a model: %w", l.spec.path,
			err)
	}
	l.tokenizer, err = tokens.OpenFolder(l.spec.python, folder, l.spec.helpers, true, log)
	if missing := tokens.MissingError(""); errors.As(err, &missing) {
		return fmt.Errorf("%w (for %s, which reads the tokenizer of %s)", missing, l.spec.python, l.spec.path)
	}
	if err != nil {
		return fmt.Errorf("model_path, tokenizer_python: got %q, %q, want a folder of a model and a Python that can "+
			"read its tokenizer: %w", l.spec.path, l.spec.python, err)
	}
	return nil
}

// serve serves until the end: as one server, or as one for each data-parallel rank.
func (s *serverSpec) serve(l *loadedServer, ask Ask, log *slog.Logger, stop *Stop) error {
	if s.ranks <= 1 {
		return s.serveRank(l, nil, ask, log, stop)
	}
	ended := make(chan error, s.ranks)
	for rank := range s.ranks {
		one := *s
		host, port, _ := net.SplitHostPort(s.address.Listen)
		if first, _ := strconv.Atoi(port); first > 0 {
			one.address.Listen = net.JoinHostPort(host, strconv.Itoa(first+rank))
		}
		go guard.Func(func() { ended <- one.serveRank(l, &rank, ask, log.With("rank", rank), stop) })()
	}
	var first error
	for range s.ranks {
		if err := <-ended; err != nil && first == nil {
			first = err
			stop.Kill()
		}
	}
	return first
}

// serveRank starts the models, opens the socket and waits for the end. The rank is that of a server which is one of
// several, else nil.
func (s *serverSpec) serveRank(l *loadedServer, rank *int, ask Ask, log *slog.Logger, stop *Stop) error {
	registry := newRegistry()
	starter := serverStart{
		metrics: map[engineargs.EngineType]*enginemetrics.Metrics{}, registry: registry, log: log,
		failed: make(chan error, 1), ask: ask, rank: rank,
	}
	config := s.http(log, registry)
	config.Startup = l.startup()
	for i := range l.models {
		sockets, err := l.models[i].spec.openKVSockets(rank, log)
		if err != nil {
			return err
		}
		defer sockets.close()
		m, err := starter.start(&l.models[i], sockets)
		if err != nil {
			return err
		}
		defer m.Deployment.Close()
		config.Models = append(config.Models, m)
	}
	return s.answer(openai.New(config), starter.failed, log, stop)
}

// http returns the settings of a server for HTTP.
func (s *serverSpec) http(log *slog.Logger, registry *prometheus.Registry) openai.Config {
	return openai.Config{
		Version: s.version, Keys: s.keys, MaxQueue: s.maxQueue, MaxBody: s.maxBody, Timeout: s.timeout,
		Faults: s.faults, CORS: &s.cors, Page: s.page, TokenizerInfo: s.tokenizerInfo,
		Log: log, Registry: registry,
	}
}

// answer opens the socket and serves until the end.
func (s *serverSpec) answer(server *openai.Server, failed <-chan error, log *slog.Logger, stop *Stop) error {
	listener, err := server.Listen(s.address)
	if err != nil {
		return err
	}
	serving := log.With("url", s.url(listener.Addr()))
	if len(s.models) > 0 {
		serving = serving.With("models", strings.Join(s.names(), ", "))
	}
	serving.Info("serving")
	if try := s.try(listener.Addr()); s.log.json {
		log.Info("to try it", "command", try)
	} else if s.log.level <= slog.LevelInfo {
		fmt.Fprintln(os.Stderr, "to try it: "+try) // as it is: the log would quote it
	}
	select {
	case <-stop.drain.Done():
	case err = <-failed:
	case err = <-listener.Failed():
	}
	server.Drain()
	if n := server.InFlight(); n > 0 && err == nil {
		log.Info("draining", "requests", n)
	}
	ctx, cancel := context.WithTimeout(stop.kill, s.drain)
	defer cancel()
	if err != nil {
		cancel()
	}
	listener.Close(ctx)
	if err != nil {
		return runError{err}
	}
	return nil
}

// serverStart starts models.
type serverStart struct {
	metrics  map[engineargs.EngineType]*enginemetrics.Metrics
	registry *prometheus.Registry
	log      *slog.Logger
	failed   chan error
	ask      Ask
	rank     *int // the only one that is started, nil for all
}

func (s *serverStart) start(l *loadedModel, sockets kvSockets) (*openai.Model, error) {
	last := &l.pools[len(l.pools)-1].args
	m := &openai.Model{
		Name: l.spec.name, Args: *last, Tokenizer: l.tokenizer, Adapters: l.spec.adapters,
		MaxAdapters: l.spec.maxAdapters, Images: l.spec.images,
		Answers: answers.Source{
			Mode: l.spec.responses, Tokenizer: l.tokenizer, Seed: l.spec.seed, Recorded: l.recording,
			Standard:  l.spec.standard,
			ToolCalls: l.spec.toolCalls, MostCalls: l.spec.mostCalls,
		},
	}
	if r := last.Live.Reasoning; r != nil {
		m.Answers.Thinking = r.Ratio
	}
	m.MaxLength = l.maxLength()
	config, loads, latencies, err := s.cluster(l)
	if err != nil {
		return nil, err
	}
	sockets.listen(&config)
	m.TellsBlocks, m.Imports = sockets != nil, config.Imports()
	m.Workers = openai.NewWorkers()
	for i := range l.pools {
		role := ""
		if len(l.pools) > 1 {
			role = l.pools[i].args.Role.String()
		}
		m.Workers.AddPool(role, &l.pools[i].args, l.spec.pools[i].Workers)
	}
	config.Loaded = func(pool, worker int, c cluster.Load) {
		loads[pool][worker].LoadChanged(shownLoad(c))
		m.Workers.Changed(pool, worker, c)
	}
	m.Latencies = latencies
	var record *deployment.Recorder
	if l.record != nil {
		record = deployment.NewRecorder(l.record, last.BlockSize, s.log)
		s.log.Info("recording", "file", l.spec.record, "trace_block_size", last.BlockSize)
	}
	m.Deployment = deployment.Start(cluster.New(config), record, s.log.With("model", m.Name), func(err error) {
		select {
		case s.failed <- errors.New(m.Name + ": " + err.Error()):
		default: // only the first failure is reported
		}
	})
	return m, nil
}

// maxLength returns the number of tokens that a prompt and its answer may have: what is asked for, else what the model
// allows, and in any case no more than a KV pool holds.
func (l *loadedModel) maxLength() int {
	last := &l.pools[len(l.pools)-1].args
	longest := last.NumGPUBlocks * last.BlockSize
	switch {
	case l.spec.maxLength > 0:
		return min(longest, l.spec.maxLength)
	case l.context > 0:
		return min(longest, l.context)
	default:
		return longest
	}
}

// cluster describes the cluster of a model, and makes the metrics of its workers.
func (s *serverStart) cluster(l *loadedModel) (c cluster.Config, loads [][]*enginemetrics.LoadMetrics,
	latencies *enginemetrics.RequestMetrics, err error) {
	pools := slices.Clone(l.spec.pools)
	for i := range pools {
		pools[i].Args = l.pools[i].args
	}
	first, stages := 0, l.spec.routing.Stages(pools, deploy.Stream(len(pools)))
	for i := range l.pools {
		in := &l.pools[i]
		var shown []*enginemetrics.LoadMetrics
		shown, latencies = s.poolMetrics(l.spec.name, &in.args, first, pools[i].Workers)
		loads = append(loads, shown)
		first += pools[i].Workers
		if l.spec.asked != "" {
			stages[i].Decider = &router.Remote{Ask: s.ask, Of: l.spec.name, Make: l.spec.asked, Settings: l.spec.settings}
		}
		stages[i].Blocks = in.args.NumGPUBlocks
		model := in.timing
		if l.spec.timing != "" {
			if model, err = (&timing.Remote{Ask: s.ask, Stage: stages[i].Stage}).
				Model(in.args.SharingRanks()); err != nil {
				return c, nil, nil, fmt.Errorf("timing_model: %w", err)
			}
		}
		c.Pools = append(c.Pools, cluster.Pool{
			Args: in.args, Workers: pools[i].Workers, Router: l.spec.routing.Mode.Factory(stages[i]),
			Setup: func(worker int) engine.Setup { return live.EngineSetup(&in.args, model, in.predict, worker, 0) },
		})
	}
	if l.spec.policy != "" {
		policies, err := deploy.NewPolicies(s.ask, func(id int32) string { return fmt.Sprintf("request %d", id) })
		if err != nil {
			return c, nil, nil, err
		}
		c.Policies = policies
	}
	c.Transfer, c.KVEventLagMs = transfer(l.pools[0].args), l.spec.lagMs
	return c, loads, latencies, nil
}

// poolMetrics makes the metrics of the workers of a pool, numbered from first on, and those of its requests.
func (s *serverStart) poolMetrics(model string, args *engineargs.Args, first, workers int) (
	loads []*enginemetrics.LoadMetrics, requests *enginemetrics.RequestMetrics) {
	metrics, known := s.metrics[args.EngineType]
	if !known {
		metrics = enginemetrics.New(s.registry, *args, false)
		s.metrics[args.EngineType] = metrics
	}
	for i := range workers {
		worker, dpRank := first+i, 0
		if s.rank != nil {
			worker, dpRank = 0, *s.rank
		}
		var load *enginemetrics.LoadMetrics
		load, requests = metrics.Rank(model, strconv.Itoa(worker), dpRank, args)
		loads = append(loads, load)
	}
	return loads, requests
}

// transfer returns how fast prefill workers hand prompts over. Those of an engine's own scheduler have a standard link.
func transfer(prefill engineargs.Args) handoff.Transfer {
	t := prefill.Transfer
	if prefill.Scheduler != engineargs.Dynamo && !t.SpeedGiven {
		t.BandwidthGBs = engineargs.StandardBandwidthGBs
	}
	return t.Handoff()
}

func shownLoad(c cluster.Load) enginemetrics.Load {
	l := enginemetrics.Load{
		Waiting: c.Waiting, Running: c.Running, UsedBlocks: c.UsedBlocks, Preemptions: c.Preemptions,
		Tokens: enginemetrics.TokenCounts{
			LookedUp: c.LookedUp, Cached: c.Reused, Prompt: c.Prompt, Generated: c.Generated, Drafts: c.Drafts,
			Accepted: c.Accepted,
		},
	}
	if c.LookedUp > 0 {
		l.CacheHitRate = float64(c.Reused) / float64(c.LookedUp)
	}
	return l
}

// startup returns how long the slowest worker takes to start.
func (l *loadedServer) startup() (longest time.Duration) {
	for i := range l.models {
		for j := range l.models[i].pools {
			longest = max(longest, time.Duration(l.models[i].pools[j].args.StartupSeconds*1e9))
		}
	}
	return longest
}
