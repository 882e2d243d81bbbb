package admin_test

import (
	"context"
	"net"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/internal/etcd/admin"
)

// talkative is a member that has a long name.
type talkative struct {
	pb.UnimplementedClusterServer

	name string
}

func (s talkative) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return &pb.MemberListResponse{Header: &pb.ResponseHeader{}, Members: []*pb.Member{{ID: 1, Name: s.name}}}, nil
}

func TestAnAnswerOfAMemberIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size int
		want codes.Code
	}{
		"one of a usual size": {1 << 8, codes.OK},
		"one that is larger":  {5 << 20, codes.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := grpc.NewServer()
			pb.RegisterClusterServer(server, talkative{name: strings.Repeat("x", c.size)})
			go func() { _ = server.Serve(listener) }()
			t.Cleanup(server.Stop)
			client, err := admin.New(t.Context(), []string{"http://" + listener.Addr().String()}, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })

			_, err = client.Members(t.Context())

			if got := status.Code(err); got != c.want {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
		})
	}
}
