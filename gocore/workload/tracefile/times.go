package tracefile

import (
	"math"
	"strconv"
	"strings"
)

// maxNs bounds times to 73 years around 1970, so that differences and sums of a few are numbers of nanoseconds too.
const maxNs = math.MaxInt64 / 4

const nsPerSecond = 1_000_000_000

// ParseSeconds reads a number of seconds to the nanosecond. Text with a plain decimal fraction is read exactly, so that
// times of a wall clock keep their distances.
func ParseSeconds(text string) (ns int64, ok bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	digits, negative := strings.CutPrefix(whole, "-")
	if !allDigits(digits) || !allDigits(fraction) || len(digits)+len(fraction) == 0 || len(digits) > 10 {
		return parseFloatSeconds(text)
	}
	seconds, err := strconv.ParseInt("0"+digits, 10, 64)
	if err != nil || seconds > maxNs/nsPerSecond-1 {
		return 0, false
	}
	ns = seconds*nsPerSecond + nanoseconds(fraction)
	if negative {
		ns = -ns
	}
	return ns, true
}

func parseFloatSeconds(text string) (ns int64, ok bool) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(math.Abs(x) < maxNs/nsPerSecond) {
		return 0, false
	}
	return int64(math.Round(x * nsPerSecond)), true
}

// nanoseconds returns a decimal fraction of a second, rounded.
func nanoseconds(fraction string) int64 {
	const places = 9
	kept := fraction[:min(len(fraction), places)]
	ns, err := strconv.ParseInt(kept+strings.Repeat("0", places-len(kept)), 10, 64)
	if err != nil {
		panic("tracefile: digits are no number: " + err.Error())
	}
	if len(fraction) > places && fraction[places] >= '5' {
		ns++
	}
	return ns
}

func allDigits(text string) bool {
	return strings.Trim(text, "0123456789") == ""
}

// ParseTimestamp reads a date and a time of day: 2023-11-16 18:17:03.9799600, with a space or a T between them, up to
// nine decimals, and a zone (Z, +02:00, -0500) or none. It returns nanoseconds since 1970; without a zone the time
// counts as universal time.
func ParseTimestamp(text string) (ns int64, zoned, ok bool) {
	if len(text) < len("2006-01-02 15:04:05") || text[10] != ' ' && text[10] != 'T' {
		return 0, false, false
	}
	year, month, day := field(text[0:4]), field(text[5:7]), field(text[8:10])
	hour, minute, second := field(text[11:13]), field(text[14:16]), field(text[17:19])
	separated := text[4] == '-' && text[7] == '-' && text[13] == ':' && text[16] == ':'
	if !separated || year < 1900 || year > 2040 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) ||
		hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 {
		return 0, false, false
	}
	rest := text[19:]
	fraction := ""
	if after, found := strings.CutPrefix(rest, "."); found {
		rest = strings.TrimLeft(after, "0123456789")
		if fraction = after[:len(after)-len(rest)]; fraction == "" || len(fraction) > 9 {
			return 0, false, false
		}
	}
	offset, zoned, ok := zone(strings.TrimPrefix(rest, " "))
	if !ok {
		return 0, false, false
	}
	seconds := daysSince1970(year, month, day)*86400 + int64(hour*3600+minute*60+second) - offset
	return seconds*nsPerSecond + nanoseconds(fraction), zoned, true
}

// field returns a number of two or four digits, -1 if it is none.
func field(text string) int {
	if !allDigits(text) {
		return -1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// zone returns the offset from universal time in seconds.
func zone(text string) (offset int64, given, ok bool) {
	switch {
	case text == "":
		return 0, false, true
	case text == "Z" || text == "UTC":
		return 0, true, true
	case len(text) < 5 || text[0] != '+' && text[0] != '-':
		return 0, false, false
	}
	minutes, found := strings.CutPrefix(text[3:], ":")
	if !found {
		minutes = text[3:]
	}
	hour, minute := field(text[1:3]), field(minutes)
	if hour < 0 || hour > 15 || len(minutes) != 2 || minute < 0 || minute > 59 {
		return 0, false, false
	}
	offset = int64(hour*3600 + minute*60)
	if text[0] == '-' {
		offset = -offset
	}
	return offset, true, true
}

func daysIn(year, month int) int {
	switch {
	case month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0):
		return 29
	case month == 2:
		return 28
	case month == 4 || month == 6 || month == 9 || month == 11:
		return 30
	}
	return 31
}

// daysSince1970 counts years from March on, so that the leap day is the last of a year: before month m of such a year
// there are (153 m + 2) / 5 days, and a cycle of 400 years has 146,097.
func daysSince1970(year, month, day int) int64 {
	if month <= 2 {
		year, month = year-1, month+12
	}
	m := month - 3
	days := 365*year + year/4 - year/100 + year/400 + (153*m+2)/5 + day - 1
	return int64(days) - 719468
}
