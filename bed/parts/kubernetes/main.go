// Command kubernetes is the whole control plane, the node agents, etcd and kubectl in one program.
//
// The name it is called by decides which of them it is, so that links named kube-apiserver, etcd and kubectl are
// enough for tools which look for these programs. One binary shares the code that all of them have in common: it is
// built in a quarter of the time and takes a quarter of the room of the seven programs.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // time zones of CronJobs, where the machine has no zone files

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's ways to sign in
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register" // the JSON log format, as upstream's programs register it
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	name := filepath.Base(os.Args[0])
	run, known := programs()[name]
	if !known {
		fmt.Fprintf(os.Stderr, "%s: call this program by one of the names %s\n", name, strings.Join(names(), ", "))
		os.Exit(2)
	}
	os.Exit(run())
}

// programs maps the name of each program to what runs it and returns its exit code.
func programs() map[string]func() int {
	return map[string]func() int{
		"etcd":                    runEtcd,
		"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
		"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
		"kube-proxy":              func() int { return cli.Run(proxy.NewProxyCommand()) },
		"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
		"kubectl":                 runKubectl,
		"kubelet":                 func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	}
}

func names() []string {
	return slices.Sorted(maps.Keys(programs()))
}

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

// runKubectl sets the verbosity before the command is built, as upstream's program does: building it already logs.
func runKubectl() int {
	if _, err := logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}
