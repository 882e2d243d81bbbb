package node

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/keyturn/keyturn/bed/internal/state"
)

// connect makes the pair of interfaces between the machine and the network namespace of the node's first process, and
// routes pods and services to the node. The machine's end carries the state folder as its alias: that is how another
// bed sees that this one is up, and how Down knows the interface for its own.
func connect(folder state.Folder, pid int) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = HostInterface
	pair := &netlink.Veth{LinkAttrs: attributes, PeerName: nodeInterface, PeerNamespace: netlink.NsPid(pid)}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("making the interface %s: %w", HostInterface, err)
	}
	link, err := netlink.LinkByName(HostInterface)
	if err != nil {
		return fmt.Errorf("finding the interface %s: %w", HostInterface, err)
	}
	if err := netlink.LinkSetAlias(link, string(folder)); err != nil {
		return fmt.Errorf("marking the interface %s: %w", HostInterface, err)
	}
	if _, err := raise(HostInterface, hostAddress); err != nil {
		return err
	}
	for _, network := range []string{PodNetwork, ServiceNetwork} {
		if err := addRoute(link, network, NodeIP); err != nil {
			return err
		}
	}
	return nil
}

// raise gives an interface its address and switches it on.
func raise(name, address string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("finding the interface %s: %w", name, err)
	}
	parsed, err := netlink.ParseAddr(address)
	if err != nil {
		return nil, fmt.Errorf("giving %s its address: %w", name, err)
	}
	if err := netlink.AddrAdd(link, parsed); err != nil {
		return nil, fmt.Errorf("giving %s the address %s: %w", name, address, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("raising %s: %w", name, err)
	}
	return link, nil
}

func addRoute(link netlink.Link, network, gateway string) error {
	_, destination, err := net.ParseCIDR(network)
	if err != nil {
		return fmt.Errorf("routing %s: %w", network, err)
	}
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: destination, Gw: net.ParseIP(gateway)}
	if err := netlink.RouteAdd(route); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("routing %s through %s: %w", network, gateway, err)
	}
	return nil
}

// interfaceOwner returns the state folder of the bed that made the machine's interface, or false when there is none.
func interfaceOwner() (string, bool, error) {
	link, err := netlink.LinkByName(HostInterface)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("looking for the interface %s: %w", HostInterface, err)
	}
	return link.Attrs().Alias, true, nil
}

// disconnect removes the machine's interface if this folder's bed made it; its other end and the routes go with it.
func disconnect(folder state.Folder) error {
	owner, found, err := interfaceOwner()
	if err != nil || !found || owner != string(folder) {
		return err
	}
	link, err := netlink.LinkByName(HostInterface)
	if err != nil {
		return fmt.Errorf("finding the interface %s: %w", HostInterface, err)
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("removing the interface %s: %w", HostInterface, err)
	}
	return nil
}
