package application

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Files of the Secret of a KafkaAccess, as far as the client reads them.
const (
	fileBootstrap  = "bootstrap.servers"
	fileProtocol   = "security.protocol"
	fileTruststore = "ssl.truststore.crt"
	fileKeystore   = "ssl.keystore.crt"
	fileKey        = "ssl.keystore.key"
	fileUser       = "username"
	filePassword   = "password"
	fileMechanism  = "sasl.mechanism"
)

func names() []string {
	return []string{
		fileBootstrap, fileProtocol, fileTruststore, fileKeystore, fileKey, fileUser, filePassword, fileMechanism,
	}
}

const (
	// current is the symbolic link that a kubelet swaps when a Secret changes.
	current = "..data"
	// swaps bounds how often a directory that changes in the middle is read again.
	swaps = 5
	// maxFile is more than a Secret holds.
	maxFile = 1 << 20
)

// ErrNoDirectory is a mount that is missing. No Secret will ever appear in it.
var ErrNoDirectory = errors.New("mount the Secret of the KafkaAccess there, or name its directory with --secret-dir")

// errSwapped is a directory that was replaced while it was read.
var errSwapped = errors.New("the directory changes again and again while it is read: write its files once")

// content is what a directory held at one moment.
type content struct {
	data map[string][]byte
	// version is the same for the same content.
	version string
}

// read reads the files of one version of the Secret: a kubelet changes all of them at
// once, and the key of one version does not fit the certificate of another.
func read(directory string) (content, error) {
	info, err := os.Stat(directory)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return content{}, fmt.Errorf("directory %s does not exist: %w", directory, ErrNoDirectory)
	case err != nil:
		return content{}, fmt.Errorf("directory %s cannot be read: %w", directory, reason(err))
	case !info.IsDir():
		return content{}, fmt.Errorf("%s is not a directory: %w", directory, ErrNoDirectory)
	}
	for range swaps {
		before, err := target(directory)
		if err != nil {
			return content{}, err
		}
		found, err := readAll(filepath.Join(directory, before))
		after, targetErr := target(directory)
		if targetErr == nil && before == after {
			return found, err
		}
	}
	return content{}, fmt.Errorf("directory %s cannot be read: %w", directory, errSwapped)
}

// target is where the files of the present version are; empty in a directory that no
// kubelet wrote.
func target(directory string) (string, error) {
	link, err := os.Readlink(filepath.Join(directory, current))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("link %s in %s cannot be read: %w", current, directory, reason(err))
	}
	return link, nil
}

func readAll(directory string) (content, error) {
	found := content{data: map[string][]byte{}}
	digest := sha256.New()
	for _, name := range names() {
		data, err := readFile(filepath.Join(directory, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return content{}, fmt.Errorf("file %s in %s cannot be read: %w", name, directory, reason(err))
		}
		found.data[name] = data
		sum := sha256.Sum256(data)
		digest.Write(slices.Concat([]byte(name), sum[:]))
	}
	found.version = hex.EncodeToString(digest.Sum(nil))
	return found, nil
}

// errTooLong is a file that is none of a Secret.
var errTooLong = errors.New("it is larger than a Secret can be")

func readFile(path string) (data []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	data, err = io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		return nil, errTooLong
	}
	return data, err
}

// reason is the error without the path, which the sentence names already.
func reason(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}
