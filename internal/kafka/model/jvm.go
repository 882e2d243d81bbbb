package model

import (
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	mebibyte = 1 << 20
	// largestDefaultHeap is where Strimzi's default stops too: beyond it the
	// page cache makes better use of memory than the heap.
	largestDefaultHeap = 5 << 30
	// unknownMemoryHeap is the heap of Kafka's own start script, for pods
	// without a memory limit.
	unknownMemoryHeap = "1g"
	smallStartHeap    = "128m"
)

// javaOptions are the options of the server's JVM: the garbage collector as in
// Kafka's own start script (kafka-run-class.sh), the heap, and what the user
// adds. The agent adds what has to do with files in the container.
func (p Pool) javaOptions() []string {
	options := []string{
		"-server",
		"-XX:+UseG1GC",
		"-XX:MaxGCPauseMillis=20",
		"-XX:InitiatingHeapOccupancyPercent=35",
		"-XX:+ExplicitGCInvokesConcurrent",
		"-XX:MaxInlineLevel=15",
		"-XX:+ExitOnOutOfMemoryError",
		// A restarted pod has another address. With Java's own 30 seconds a node goes
		// on calling the old one, ten seconds at a time, and what it should copy for
		// acks=all waits as long.
		"-Dsun.net.inetaddr.ttl=1",
		// What a server does seldom, such as loading certificates, is compiled while it
		// does it, and costs more than the thing itself. Compilers yield to those who
		// serve: on two processors clients noticed.
		"-XX:ThreadPriorityPolicy=1",
		"-XX:CompilerThreadPriority=10",
	}
	options = append(options, p.heapOptions()...)
	for _, name := range slices.Sorted(maps.Keys(p.jvmOptions.XX)) {
		options = append(options, xxOption(name, p.jvmOptions.XX[name]))
	}
	if enabled := p.jvmOptions.GcLoggingEnabled; enabled != nil && *enabled {
		options = append(options, "-Xlog:gc*:stdout:time")
	}
	for _, property := range p.jvmOptions.JavaSystemProperties {
		options = append(options, "-D"+property.Name+"="+property.Value)
	}
	return options
}

// heapOptions are the user's; otherwise half of the memory limit, or what
// Kafka's own start script takes when there is no limit. A start without an end
// leaves the end to Java, as with Strimzi: a quarter of the memory, and never less
// than the start.
func (p Pool) heapOptions() []string {
	largest, start := p.jvmOptions.Xmx, p.jvmOptions.Xms
	if largest == "" && start == "" {
		largest, start = p.defaultHeap(), smallStartHeap
	}
	options := []string{}
	if start != "" {
		options = append(options, "-Xms"+start)
	}
	if largest != "" {
		options = append(options, "-Xmx"+largest)
	}
	return options
}

// checkHeap refuses a heap that no JVM starts with.
func (r *resolver) checkHeap(object, start, largest string) {
	first, firstOK := heapBytes(start)
	last, lastOK := heapBytes(largest)
	switch {
	case !firstOK || !lastOK:
		r.errorf(object, "jvmOptions: -Xms %q and -Xmx %q must be numbers of bytes, or numbers with k, m or g", start, largest)
	case largest != "" && first > last:
		r.errorf(object, "jvmOptions: -Xms %s is more than -Xmx %s: lower the first or raise the second", start, largest)
	}
}

// heapBytes reads a heap size; the empty text is zero.
func heapBytes(text string) (uint64, bool) {
	if text == "" {
		return 0, true
	}
	digits, shift := text, 0
	switch text[len(text)-1] {
	case 'k', 'K':
		digits, shift = text[:len(text)-1], 10
	case 'm', 'M':
		digits, shift = text[:len(text)-1], 20
	case 'g', 'G':
		digits, shift = text[:len(text)-1], 30
	}
	number, err := strconv.ParseUint(digits, 10, 33)
	if err != nil && shift == 0 {
		number, err = strconv.ParseUint(digits, 10, 63)
	}
	return number << shift, err == nil && number > 0
}

func (p Pool) defaultHeap() string {
	limit := resource.Quantity{}
	if memory, limited := p.resources.Limits["memory"]; limited {
		limit = memory
	}
	if limit.Sign() <= 0 {
		return unknownMemoryHeap
	}
	heap := min(limit.Value()/2, largestDefaultHeap)
	return strconv.FormatInt(max(heap/mebibyte, 128), 10) + "m"
}

// xxOption renders an -XX option: true and false switch, other values are set.
func xxOption(name, value string) string {
	switch value {
	case textTrue:
		return "-XX:+" + name
	case "false":
		return "-XX:-" + name
	default:
		return "-XX:" + name + "=" + value
	}
}
