package node

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/keyturn/keyturn/bed/internal/state"
)

// etcd listens where only the node's own programs reach it; its health is told on the node's address.
const (
	etcdURL       = "http://127.0.0.1:2379"
	etcdHealthURL = "http://" + NodeIP + ":2381"
)

//go:embed config/*
var configFiles embed.FS

// settings fills the templates of the configuration files.
type settings struct {
	Folder         state.Folder
	Programs       Programs
	Keys           keyring
	Cgroup         string
	DNS            string
	NodeIP         string
	PauseImage     string
	PodNetwork     string
	RuntimeBinary  string
	ContainerdAddr string
}

// writeConfig renders the configuration files of one life into the run folder.
func writeConfig(folder state.Folder, programs Programs) error {
	values := settings{
		Folder: folder, Programs: programs, Keys: keyring{folder},
		Cgroup: cgroup, DNS: DNSService, NodeIP: NodeIP, PauseImage: PauseImage, PodNetwork: PodNetwork,
		RuntimeBinary: filepath.Join(programs.Runtime, "runc"), ContainerdAddr: folder.ContainerdSocket(),
	}
	parsed, err := template.New("").Option("missingkey=error").ParseFS(configFiles, "config/*")
	if err != nil {
		return fmt.Errorf("reading the configuration templates: %w", err)
	}
	targets := map[string]string{
		"audit-policy.yaml": folder.Run("audit-policy.yaml"),
		"cni.conflist":      folder.Run("cni", "10-bed.conflist"),
		"containerd.toml":   folder.Run("containerd.toml"),
		"kubelet.yaml":      folder.Run("kubelet.yaml"),
		"resolv.conf":       folder.Run("resolv.conf"),
	}
	for name, path := range targets {
		var text strings.Builder
		if err := parsed.ExecuteTemplate(&text, name, values); err != nil {
			return fmt.Errorf("rendering %s: %w", name, err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}
