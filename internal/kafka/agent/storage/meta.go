package storage

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// metaFile is the file by which Kafka recognises a formatted data directory.
const metaFile = "meta.properties"

// Owner is the node that data directories must belong to.
type Owner struct {
	ClusterID string
	NodeID    int32
}

// ForeignError says that a data directory holds the data of another cluster or
// another node. Nothing is changed then: starting would mix them, formatting
// would destroy them.
type ForeignError struct {
	Directory string
	// Of and Wanted name the owner found and the one expected.
	Of, Wanted string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("data directory %s belongs to %s, this node is %s: refusing to start on it; "+
		"check which volume is bound to the pod's claim", e.Directory, e.Of, e.Wanted)
}

// NeedsFormat reports whether any of the data directories is unformatted. The
// error is a ForeignError if one of them belongs to another node or cluster.
func NeedsFormat(directories []string, owner Owner) (bool, error) {
	unformatted := false
	for _, directory := range directories {
		data, err := os.ReadFile(filepath.Join(directory, metaFile))
		if errors.Is(err, fs.ErrNotExist) {
			unformatted = true
			continue
		}
		if err != nil {
			return false, fmt.Errorf("reading what data directory %s belongs to: %w", directory, err)
		}
		if err := check(directory, ParseMeta(data), owner); err != nil {
			return false, err
		}
	}
	return unformatted, nil
}

func check(directory string, meta Meta, owner Owner) error {
	if meta.ClusterID != owner.ClusterID {
		return &ForeignError{
			Directory: directory,
			Of:        fmt.Sprintf("the Kafka cluster with id %q", meta.ClusterID),
			Wanted:    fmt.Sprintf("of the cluster with id %q", owner.ClusterID),
		}
	}
	if node := strconv.Itoa(int(owner.NodeID)); meta.NodeID != node {
		return &ForeignError{
			Directory: directory,
			Of:        fmt.Sprintf("the node with id %q", meta.NodeID),
			Wanted:    fmt.Sprintf("the node with id %q", node),
		}
	}
	return nil
}

// Meta is what a formatted directory says about itself. A missing value is
// empty, and matches no owner.
type Meta struct {
	ClusterID, NodeID string
}

// ParseMeta reads meta.properties, which Kafka writes without continuation
// lines, one key=value a line.
func ParseMeta(data []byte) Meta {
	var meta Meta
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		key, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), "=")
		switch strings.TrimSpace(key) {
		case "cluster.id":
			meta.ClusterID = strings.TrimSpace(value)
		case "node.id":
			meta.NodeID = strings.TrimSpace(value)
		}
	}
	return meta
}
