package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// EnvFolder names the environment variable that moves the state folder.
const EnvFolder = "KEYTURN_BED"

// maxFolder keeps the unix sockets below the folder within the kernel's limit of 107 bytes for their paths.
const maxFolder = 60

// Folder is the state folder: an absolute path that exists.
type Folder string

// Open finds the state folder, $KEYTURN_BED or keyturn-bed in the user's cache, and makes it when it is missing.
func Open() (Folder, error) {
	path := os.Getenv(EnvFolder)
	if path == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("finding a place for the state folder; set %s: %w", EnvFolder, err)
		}
		path = filepath.Join(cache, "keyturn-bed")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("finding the state folder %s: %w", path, err)
	}
	if err := check(path); err != nil {
		return "", err
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", fmt.Errorf("making the state folder: %w", err)
	}
	return Folder(path), nil
}

// check refuses folders that the node could not see or could not use.
func check(path string) error {
	if len(path) > maxFolder {
		return fmt.Errorf("the state folder %s has a path of more than %d bytes, too long for the sockets in it; choose a shorter one with %s", path, maxFolder, EnvFolder)
	}
	for _, hidden := range []string{"/run", "/var/run", "/var/lib", "/var/log", "/proc", "/sys"} {
		if path == hidden || strings.HasPrefix(path, hidden+"/") {
			return fmt.Errorf("the state folder %s lies below %s, which the node covers with its own; choose another with %s", path, hidden, EnvFolder)
		}
	}
	return nil
}

func (f Folder) join(parts ...string) string {
	return filepath.Join(append([]string{string(f)}, parts...)...)
}

// Built is where the result of one build step lies; the key changes with everything that went into it.
func (f Folder) Built(name, key string) string { return f.join("built", name+"-"+key) }

// Images holds the image archives, one file per image.
func (f Folder) Images() string { return f.join("images") }

// ContainerdRoot keeps containerd's images from one life of the bed to the next.
func (f Folder) ContainerdRoot() string { return f.join("containerd") }

// ContainerdSocket is where the running containerd answers.
func (f Folder) ContainerdSocket() string { return f.Run("containerd.sock") }

// Logs holds one file per component and the API server's audit log; they survive `down` until the next `up`.
func (f Folder) Logs() string { return f.join("logs") }

// Log is the log file of one component.
func (f Folder) Log(component string) string { return f.join("logs", component+".log") }

// Kubeconfig is the administrator's way in.
func (f Folder) Kubeconfig() string { return f.join("kubeconfig") }

// Run is a path in the part of the folder that lives only as long as one life of the bed.
func (f Folder) Run(parts ...string) string { return f.join(append([]string{"run"}, parts...)...) }

// WipeRun removes everything that one life of the bed left in the folder. It refuses while something is still mounted
// there: removing would reach into what is mounted.
func (f Folder) WipeRun() error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("reading the mounts of this machine: %w", err)
	}
	if mounted := mountsBelow(string(mounts), f.Run()); len(mounted) > 0 {
		return fmt.Errorf("%s is still mounted; unmount it and try again", mounted[0])
	}
	if err := os.RemoveAll(f.Run()); err != nil {
		return fmt.Errorf("removing the state of the last life: %w", err)
	}
	if err := os.Remove(f.Kubeconfig()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the kubeconfig of the last life: %w", err)
	}
	return nil
}

// mountsBelow lists the mount points of a mountinfo text that are the path or lie below it.
func mountsBelow(mountinfo, path string) []string {
	var below []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := fields[4]; point == path || strings.HasPrefix(point, path+"/") {
			below = append(below, point)
		}
	}
	return below
}
