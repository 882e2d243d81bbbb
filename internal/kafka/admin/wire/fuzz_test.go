package wire

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzDecode feeds what a node might send to the reader of the answers that are
// asked for here: it must not panic, and must not take long over small input.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, int16(60), int16(2))
	f.Add([]byte{0, 0, 0, 1, 0, 0}, int16(18), int16(0))
	f.Add([]byte{0, 0, 0, 1, 255, 255, 255, 255, 15}, int16(55), int16(1))
	f.Fuzz(func(_ *testing.T, body []byte, key, version int16) {
		req := kmsg.RequestForKey(key)
		if req == nil || version < 0 || version > req.MaxVersion() {
			return
		}
		switch key {
		case 18, 55, 60:
		default:
			return
		}
		req.SetVersion(version)
		_ = decode(body, 1, req.ResponseKind()) // any error will do
	})
}
