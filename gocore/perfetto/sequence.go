package perfetto

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// TrackID identifies a track in the whole trace. Small numbers take fewer bytes.
type TrackID uint64

// FlowID identifies an arrow in the whole trace. It is not 0.
type FlowID uint64

// Track describes a track.
type Track struct {
	ID     TrackID
	Parent TrackID // 0 for none
	Name   string
	Rank   int    // the place among the tracks of one parent
	Unit   string // of a counter
	Counts bool   // the track is a counter
}

// Arg is a number that belongs to an event.
type Arg struct {
	Name  string
	Value int64
}

// Event is the beginning of a slice, or an instant.
type Event struct {
	Track TrackID
	AtNs  int64
	Name  string
	Label string // added to the name, for slices whose names differ from all others
	Args  []Arg
	Flow  FlowID // 0 for none
	// Ends tells that the flow ends with this event.
	Ends bool
}

// Sequence is packets with a common table of names.
type Sequence struct {
	id     uint64
	begun  bool
	names  map[string]uint64 // of events
	args   map[string]uint64 // of arguments
	news   []byte            // names that the next packet defines
	bytes  []byte
	packet []byte // scratch
	event  []byte // scratch
}

// NewSequence returns an empty sequence. Every one in a trace has another id, from 1.
func NewSequence(id int) *Sequence {
	return &Sequence{id: uint64(id), names: map[string]uint64{}, args: map[string]uint64{}}
}

// Bytes returns the packets so far. They are valid until the next call.
func (s *Sequence) Bytes() []byte { return s.bytes }

// Fields of the messages.
const (
	tracePacket = 1

	packetTimestamp  = 8
	packetSequence   = 10
	packetEvent      = 11
	packetInterned   = 12
	packetFlags      = 13
	packetDescriptor = 60

	eventArg          = 4
	eventType         = 9
	eventNameID       = 10
	eventTrack        = 11
	eventName         = 23
	eventCount        = 30
	eventDoubleCount  = 44
	eventFlow         = 47
	eventFlowThatEnds = 48

	argNameID = 1
	argInt    = 4

	internedEventNames = 2
	internedArgNames   = 3
	internedID         = 1
	internedText       = 2

	trackID       = 1
	trackName     = 2
	trackParent   = 5
	trackCounter  = 8
	trackOrdering = 11
	trackRank     = 12

	counterUnit     = 3
	counterUnitName = 6
)

// Values of fields.
const (
	sliceBegin   = 1
	sliceEnd     = 2
	instant      = 3
	counterValue = 4

	stateCleared = 1
	stateNeeded  = 2

	explicitOrdering = 3
	unitCount        = 2
)

// Describe adds a track. It has to be called before the track is used.
func (s *Sequence) Describe(t Track) {
	d := s.event[:0]
	d = appendUint(d, trackID, uint64(t.ID))
	d = appendText(d, trackName, t.Name)
	if t.Parent != 0 {
		d = appendUint(d, trackParent, uint64(t.Parent))
	}
	if t.Counts {
		counter := appendUint(nil, counterUnit, unitCount)
		if t.Unit != "" {
			counter = appendText(nil, counterUnitName, t.Unit)
		}
		d = appendMessage(d, trackCounter, counter)
	}
	d = appendUint(d, trackOrdering, explicitOrdering)
	d = appendUint(d, trackRank, uint64(t.Rank))
	s.event = d
	s.packet = appendMessage(s.packet[:0], packetDescriptor, d)
	s.add()
}

// Begin begins a slice.
func (s *Sequence) Begin(e Event) { s.named(sliceBegin, &e) }

// Instant adds an event without duration.
func (s *Sequence) Instant(e Event) { s.named(instant, &e) }

// End ends the slice of a track that began last.
func (s *Sequence) End(track TrackID, atNs int64) {
	s.event = appendUint(s.event[:0], eventType, sliceEnd)
	s.event = appendUint(s.event, eventTrack, uint64(track))
	s.timed(atNs)
}

// Count sets a counter.
func (s *Sequence) Count(track TrackID, atNs int64, value float64) {
	s.event = appendUint(s.event[:0], eventType, counterValue)
	s.event = appendUint(s.event, eventTrack, uint64(track))
	if whole := int64(value); float64(whole) == value {
		s.event = appendUint(s.event, eventCount, uint64(whole))
	} else {
		s.event = protowire.AppendTag(s.event, eventDoubleCount, protowire.Fixed64Type)
		s.event = protowire.AppendFixed64(s.event, math.Float64bits(value))
	}
	s.timed(atNs)
}

func (s *Sequence) named(kind uint64, e *Event) {
	b := appendUint(s.event[:0], eventType, kind)
	b = appendUint(b, eventTrack, uint64(e.Track))
	if e.Label == "" {
		b = appendUint(b, eventNameID, s.intern(s.names, internedEventNames, e.Name))
	} else {
		b = protowire.AppendTag(b, eventName, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(len(e.Name)+len(e.Label)))
		b = append(append(b, e.Name...), e.Label...)
	}
	for _, a := range e.Args {
		id := s.intern(s.args, internedArgNames, a.Name)
		b = protowire.AppendTag(b, eventArg, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(2+protowire.SizeVarint(id)+protowire.SizeVarint(uint64(a.Value))))
		b = appendUint(b, argNameID, id)
		b = appendUint(b, argInt, uint64(a.Value))
	}
	if e.Flow != 0 {
		field := protowire.Number(eventFlow)
		if e.Ends {
			field = eventFlowThatEnds
		}
		b = protowire.AppendTag(b, field, protowire.Fixed64Type)
		b = protowire.AppendFixed64(b, uint64(e.Flow))
	}
	s.event = b
	s.timed(e.AtNs)
}

// intern returns the number of a name. The next packet defines a new one.
func (s *Sequence) intern(table map[string]uint64, field protowire.Number, name string) uint64 {
	id, known := table[name]
	if known {
		return id
	}
	id = uint64(len(table)) + 1
	table[name] = id
	s.news = appendMessage(s.news, field, appendText(appendUint(nil, internedID, id), internedText, name))
	return id
}

// timed adds the event as a packet.
func (s *Sequence) timed(atNs int64) {
	p := appendUint(s.packet[:0], packetTimestamp, uint64(atNs))
	s.packet = appendMessage(p, packetEvent, s.event)
	s.add()
}

// add completes the packet.
func (s *Sequence) add() {
	flags := uint64(stateNeeded)
	if !s.begun {
		s.begun = true
		flags |= stateCleared
	}
	p := appendUint(s.packet, packetSequence, s.id)
	p = appendUint(p, packetFlags, flags)
	if len(s.news) > 0 {
		p = appendMessage(p, packetInterned, s.news)
		s.news = s.news[:0]
	}
	s.packet = p
	s.bytes = appendMessage(s.bytes, tracePacket, p)
}

func appendUint(b []byte, field protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), value)
}

func appendText(b []byte, field protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

func appendMessage(b []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), message)
}
