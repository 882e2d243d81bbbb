package controller

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
)

func TestAnEtcdAccessThatIsNotSeenIsNotGone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		grantsAccess bool
		watched      []string
		issued       enroll.Issued
		lives        bool
	}{
		"without rights":             {false, nil, enroll.Issued{Namespace: "shop", IsAccess: true}, true},
		"beside the cluster":         {false, nil, enroll.Issued{Namespace: "etcd", IsAccess: true}, true},
		"in a namespace not watched": {true, []string{"etcd"}, enroll.Issued{Namespace: "shop", IsAccess: true}, true},
		"in one that is watched":     {true, []string{"etcd", "shop"}, enroll.Issued{Namespace: "shop", IsAccess: true}, false},
		"where all are watched":      {true, nil, enroll.Issued{Namespace: "shop", IsAccess: true}, false},
		"a backup that has ended":    {false, nil, enroll.Issued{Namespace: "etcd"}, false},
		"a member that is gone":      {false, nil, enroll.Issued{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.issued.PodUID = "uid"
			p := &pass{
				Reconciler: &Reconciler{options: Options{GrantsAccess: tt.grantsAccess, Watched: tt.watched}},
				etcd:       &etcdv1beta2.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "etcd"}},
				ledger:     ledger{issued: enroll.Ledger{"1": tt.issued}}, clients: map[string]string{},
			}
			living := map[string]string{}
			p.addUnseen(living)
			if _, lives := living["uid"]; lives != tt.lives || (p.clients["uid"] != "") != tt.lives {
				t.Errorf("it is in use: %t, want %t; called %q", lives, tt.lives, p.clients["uid"])
			}
		})
	}
}
