package binding_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/access/binding"
)

var update = flag.Bool("update", false, "write docs/listeners.md instead of comparing it")

// The page is made from what decides.
func TestTheListenersPageIsCurrent(t *testing.T) {
	t.Parallel()
	const path = "../../../docs/listeners.md"
	page := listenersPage(t)
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	stands, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(stands), page); diff != "" {
		t.Errorf("the page says something else, run make generate (-page +truth):\n%s", diff)
	}
}

const pageHead = `<!-- Written by make generate. DO NOT EDIT. -->
# Which listener a KafkaAccess connects to

The access operator chooses in this order:

1. The Kafka has no listeners: the KafkaAccess is not ready (` + "`NoListener`" + `).
2. The KafkaAccess names a listener: that one.
3. The Kafka has one listener: that one.
4. Otherwise the listeners that accept the user, by the table below. A KafkaUser without authentication has to name one
   (` + "`ListenerRequired`" + `).
5. Of these, the ones of type ` + "`internal`" + `, if there are any.
6. Of these, the first by name.
7. None is left: the KafkaAccess is not ready (` + "`IncompatibleListener`" + `).

A listener that was chosen in step 2 or 3 has to accept the user, too. Otherwise the KafkaAccess is not ready (` + "`IncompatibleListener`" + `),
and no Secret is written.

A cell holds the ` + "`security.protocol`" + ` with which a client connects, or – where the listener does not accept the user. All types of
listeners are alike in this: ` + "%s" + `.

| listener | %s |
|---|%s
`

const pageTail = `
Clients without a KafkaUser are given an address and the certificates to trust. What they authenticate with is left to them.
So is what a listener of type ` + "`custom`" + ` or ` + "`oauth`" + ` needs besides: its protocol is what TLS alone says.
`

func listenersPage(t *testing.T) string {
	t.Helper()
	kinds, columns := []string{}, []string{"no KafkaUser", "KafkaUser without authentication"}
	for _, kind := range listenerTypes() {
		kinds = append(kinds, "`"+string(kind)+"`")
	}
	for _, user := range users()[len(columns):] {
		columns = append(columns, "KafkaUser of type `"+string(user)+"`")
	}
	var page strings.Builder
	fmt.Fprintf(&page, pageHead, strings.Join(kinds, ", "), strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, tls := range []bool{false, true} {
		for _, authentication := range listenerAuthentications() {
			row := fmt.Sprintf("| `tls: %t`, ", tls)
			if authentication == "" {
				row += "no authentication"
			} else {
				row += "authentication `" + string(authentication) + "`"
			}
			for _, user := range users() {
				row += " | " + cell(t, tls, authentication, user)
			}
			page.WriteString(row + " |\n")
		}
	}
	return page.String() + pageTail
}

// cell is the same for every type of listener.
func cell(t *testing.T, tls bool, authentication kafkav1.ListenerAuthenticationType, user binding.User) string {
	t.Helper()
	found := map[string]bool{}
	text := ""
	for _, kind := range listenerTypes() {
		text = "–"
		if chosen, err := binding.ChooseListener(kafkaWith(listener("only", kind, tls, authentication)), "", user); err == nil {
			text = "`" + binding.Protocol(&chosen) + "`"
		}
		found[text] = true
	}
	if len(found) != 1 {
		t.Errorf("tls: %t, authentication %q, %s: types differ: %v", tls, authentication, user, found)
	}
	return text
}
