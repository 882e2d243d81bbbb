package node

import (
	"os"
	"path/filepath"

	"github.com/keyturn/keyturn/bed/internal/state"
)

// component is one program of the node.
type component struct {
	// Name is what logs and status call it.
	Name string
	// Command is the program and its arguments.
	Command []string
	// Path is put in front of PATH for programs that look for others.
	Path string
}

// stages lists the components in start order: each stage starts when the one before it answers.
func stages(folder state.Folder, programs Programs) [][]component {
	return [][]component{
		{etcd(folder, programs), containerd(folder, programs)},
		{apiServer(folder, programs)},
		{
			controllerManager(folder, programs),
			scheduler(folder, programs),
			kubelet(folder, programs),
			proxy(folder, programs),
			provisioner(folder),
			networkPolicies(folder),
		},
	}
}

// etcd skips fsync: the cluster does not outlive the machine anyway.
func etcd(folder state.Folder, programs Programs) component {
	return component{Name: "etcd", Command: []string{
		programs.kubernetes("etcd"),
		"--name=" + Name,
		"--data-dir=" + folder.Run("etcd"),
		"--listen-client-urls=" + etcdURL,
		"--advertise-client-urls=" + etcdURL,
		"--listen-peer-urls=http://127.0.0.1:2380",
		"--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=" + Name + "=http://127.0.0.1:2380",
		"--quota-backend-bytes=4294967296",
		"--listen-metrics-urls=" + etcdHealthURL,
		"--unsafe-no-fsync",
		"--log-level=warn",
	}}
}

func containerd(folder state.Folder, programs Programs) component {
	return component{
		Name:    "containerd",
		Command: []string{filepath.Join(programs.Runtime, "containerd"), "--config", folder.Run("containerd.toml")},
		Path:    programs.Runtime,
	}
}

// apiServer writes an audit line for every request, so that reads and writes of any client can be counted.
func apiServer(folder state.Folder, programs Programs) component {
	keys := keyring{folder}
	return component{Name: "kube-apiserver", Command: []string{
		programs.kubernetes("kube-apiserver"),
		"--etcd-servers=" + etcdURL,
		"--bind-address=0.0.0.0",
		"--secure-port=" + APIPort,
		"--advertise-address=" + NodeIP,
		"--service-cluster-ip-range=" + ServiceNetwork,
		"--tls-cert-file=" + keys.Cert("apiserver"),
		"--tls-private-key-file=" + keys.Key("apiserver"),
		"--client-ca-file=" + keys.Cert("ca"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + keys.Cert("service-accounts"),
		"--service-account-signing-key-file=" + keys.Key("service-accounts"),
		"--kubelet-certificate-authority=" + keys.Cert("ca"),
		"--kubelet-client-certificate=" + keys.Cert("admin"),
		"--kubelet-client-key=" + keys.Key("admin"),
		"--kubelet-preferred-address-types=InternalIP",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--audit-policy-file=" + folder.Run("audit-policy.yaml"),
		"--audit-log-path=" + filepath.Join(folder.Logs(), "audit.log"),
		"--audit-log-maxsize=200",
		"--audit-log-maxbackup=10",
	}}
}

// controllerManager and scheduler run alone, so they elect no leader.
func controllerManager(folder state.Folder, programs Programs) component {
	keys := keyring{folder}
	return component{Name: "kube-controller-manager", Command: []string{
		programs.kubernetes("kube-controller-manager"),
		"--kubeconfig=" + keys.Kubeconfig("controller-manager"),
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--root-ca-file=" + keys.Cert("ca"),
		"--service-account-private-key-file=" + keys.Key("service-accounts"),
		"--cluster-signing-cert-file=" + keys.Cert("ca"),
		"--cluster-signing-key-file=" + keys.Key("ca"),
		"--bind-address=" + NodeIP,
		"--tls-cert-file=" + keys.Cert("node-server"),
		"--tls-private-key-file=" + keys.Key("node-server"),
		"--kube-api-qps=100",
		"--kube-api-burst=200",
		"--flex-volume-plugin-dir=" + folder.Run("flex"),
	}}
}

func scheduler(folder state.Folder, programs Programs) component {
	keys := keyring{folder}
	return component{Name: "kube-scheduler", Command: []string{
		programs.kubernetes("kube-scheduler"),
		"--kubeconfig=" + keys.Kubeconfig("scheduler"),
		"--leader-elect=false",
		"--bind-address=" + NodeIP,
		"--tls-cert-file=" + keys.Cert("node-server"),
		"--tls-private-key-file=" + keys.Key("node-server"),
	}}
}

func kubelet(folder state.Folder, programs Programs) component {
	return component{Name: "kubelet", Command: []string{
		programs.kubernetes("kubelet"),
		"--kubeconfig=" + keyring{folder}.Kubeconfig("kubelet"),
		"--config=" + folder.Run("kubelet.yaml"),
		"--root-dir=" + folder.Run("kubelet"),
		"--hostname-override=" + Name,
		"--node-ip=" + NodeIP,
	}}
}

func proxy(folder state.Folder, programs Programs) component {
	return component{Name: "kube-proxy", Command: []string{
		programs.kubernetes("kube-proxy"),
		"--kubeconfig=" + keyring{folder}.Kubeconfig("proxy"),
		"--proxy-mode=nftables",
		"--hostname-override=" + Name,
		"--cluster-cidr=" + PodNetwork,
		"--conntrack-max-per-core=0",
		"--nodeport-addresses=primary",
	}}
}

func provisioner(folder state.Folder) component {
	return component{Name: "provisioner", Command: []string{
		ownProgram(folder), "provisioner",
		"--kubeconfig=" + keyring{folder}.Kubeconfig("admin"),
		"--folder=" + VolumesFolder(folder),
	}}
}

func networkPolicies(folder state.Folder) component {
	return component{Name: "network-policies", Command: []string{
		ownProgram(folder), "network-policies",
		"--kubeconfig=" + keyring{folder}.Kubeconfig("admin"),
		"--trusted=" + nodeInterface,
	}}
}

// environment is what a component sees: the machine's variables with its own programs found first. Variables that
// would send the cluster's traffic to a proxy or give the programs another way to the cluster are left out.
func (c component) environment() []string {
	path := os.Getenv("PATH")
	if path == "" {
		path = "/usr/sbin:/usr/bin:/sbin:/bin"
	}
	if c.Path != "" {
		path = c.Path + string(os.PathListSeparator) + path
	}
	return []string{"PATH=" + path, "HOME=/root", "TMPDIR=/tmp"}
}
