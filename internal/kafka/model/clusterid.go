package model

import "encoding/base64"

// NewClusterID renders 16 random bytes as a KRaft cluster id: a random UUID in
// the form of Kafka's Uuid, which is URL-safe base64 without padding. Kafka
// avoids ids that begin with "-", because command lines take them for options;
// so does this.
func NewClusterID(random [16]byte) string {
	random[0] &= 0x7f
	random[6] = random[6]&0x0f | 0x40
	random[8] = random[8]&0x3f | 0x80
	return base64.RawURLEncoding.EncodeToString(random[:])
}
