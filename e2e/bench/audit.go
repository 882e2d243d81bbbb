package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/report"
)

// auditVariable names the API server's audit log (JSON lines). The bed's is known.
const auditVariable = "KEYTURN_AUDIT_LOG"

// operatorUser is who the operator is to the API server.
const operatorUser = "system:serviceaccount:" + harness.OperatorNamespace + ":keyturn"

// auditLog is the API server's account of requests of one user from some moment on.
type auditLog struct {
	path string
	from int64
	user string
}

// openAudit notes where the log ends now. Without a log nothing is counted.
func openAudit(ctx context.Context, kube *harness.Kubernetes, user string) (auditLog, error) {
	path := os.Getenv(auditVariable)
	if path == "" {
		bed, err := kube.OnBed(ctx)
		if err != nil || !bed {
			return auditLog{}, err
		}
		path = filepath.Join(filepath.Dir(os.Getenv(harness.KubeconfigVariable)), "logs", "audit.log")
	}
	info, err := os.Stat(path)
	if err != nil {
		return auditLog{}, fmt.Errorf("finding the audit log: %w", err)
	}
	return auditLog{path: path, from: info.Size(), user: user}, nil
}

// request is a line of the log, as far as it matters.
type request struct {
	AuditID string `json:"auditID"`
	Verb    string `json:"verb"`
	User    struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource  string `json:"resource"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"objectRef"`
}

// requests of one user.
type requests struct {
	known  bool
	user   string
	leases int
	reads  int
	writes []request
}

// errRotated is a log that was replaced meanwhile.
var errRotated = errors.New("the audit log was rotated meanwhile; measure again")

// during counts a user's requests for some time from now on.
func (b *bench) during(ctx context.Context, user string, period time.Duration) (requests, error) {
	log, err := openAudit(ctx, b.kube, user)
	if err != nil {
		return requests{}, err
	}
	if err := harness.Let(ctx, period); err != nil {
		return requests{}, err
	}
	return log.since()
}

// uncounted says why requests were not counted.
func uncounted(who string) string {
	return "requests of the " + who + " were not counted: $" + auditVariable + " names no audit log"
}

// since counts the user's requests since the log was opened.
func (l auditLog) since() (requests, error) {
	if l.path == "" {
		return requests{}, nil
	}
	file, err := os.Open(l.path)
	if err != nil {
		return requests{}, fmt.Errorf("reading the audit log: %w", err)
	}
	defer func() { _ = file.Close() }() // it is only read
	if info, err := file.Stat(); err != nil || info.Size() < l.from {
		return requests{}, errors.Join(errRotated, err)
	}
	if _, err := file.Seek(l.from, io.SeekStart); err != nil {
		return requests{}, fmt.Errorf("reading the audit log: %w", err)
	}
	counted := requests{known: true, user: l.user}
	seen := map[string]bool{}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return counted, nil // a line that is still being written is not counted
		}
		if err != nil {
			return requests{}, fmt.Errorf("reading the audit log: %w", err)
		}
		if err := counted.note(line, seen); err != nil {
			return requests{}, err
		}
	}
}

// note counts a request once: watches stand in the log at their start and end.
func (r *requests) note(line []byte, seen map[string]bool) error {
	if !bytes.Contains(line, []byte(r.user)) {
		return nil
	}
	var entry request
	if err := json.Unmarshal(line, &entry); err != nil {
		return fmt.Errorf("reading a line of the audit log: %w", err)
	}
	if entry.User.Username != r.user || seen[entry.AuditID] {
		return nil
	}
	seen[entry.AuditID] = true
	switch {
	case entry.ObjectRef.Resource == "leases":
		r.leases++
	case slices.Contains([]string{"get", "list", "watch"}, entry.Verb):
		r.reads++
	default:
		r.writes = append(r.writes, entry)
	}
	return nil
}

func (r *requests) figures(took time.Duration) (figures []report.Figure, notes []string) {
	if !r.known {
		return nil, []string{"requests were not counted: $" + auditVariable + " names no audit log"}
	}
	const how = "the API server's audit log, requests of the operator's ServiceAccount (both replicas) during the idle time"
	kinds := map[string]int{}
	for _, write := range r.writes {
		kinds[write.Verb+" "+write.ObjectRef.Resource+" "+write.ObjectRef.Namespace+"/"+write.ObjectRef.Name]++
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		notes = append(notes, fmt.Sprintf("written %d times: %s", kinds[kind], kind))
	}
	return []report.Figure{
		report.AtMost("operator with one idle cluster, writes beside its Lease", float64(len(r.writes)), 0, "requests", how),
		report.Observed("operator with one idle cluster, requests beside leases", float64(r.reads+len(r.writes))/took.Minutes(), "requests/min", how),
		report.Observed("operator with one idle cluster, requests about leases", float64(r.leases)/took.Minutes(), "requests/min", how),
	}, notes
}
