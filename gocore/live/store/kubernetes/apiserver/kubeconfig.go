package apiserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// kubeconfig is what this package needs of the files of that name:
// https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/.
type kubeconfig struct {
	CurrentContext string `json:"current-context"`
	Contexts       []struct {
		Name    string `json:"name"`
		Context struct {
			Cluster string `json:"cluster"`
			User    string `json:"user"`
		} `json:"context"`
	} `json:"contexts"`
	Clusters []struct {
		Name    string  `json:"name"`
		Cluster cluster `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string `json:"name"`
		User user   `json:"user"`
	} `json:"users"`
}

// cluster says where an API server is and how its certificate is checked.
type cluster struct {
	Server             string         `json:"server"`
	ServerName         string         `json:"tls-server-name,omitempty"`
	Insecure           bool           `json:"insecure-skip-tls-verify,omitempty"`
	Authority          string         `json:"certificate-authority,omitempty"`
	AuthorityData      []byte         `json:"certificate-authority-data,omitempty"`
	Proxy              string         `json:"proxy-url,omitempty"`
	DisableCompression bool           `json:"disable-compression,omitempty"`
	Extensions         []extensionFor `json:"extensions,omitempty"`
}

// extensionFor is a member of a cluster that only one kind of program reads.
type extensionFor struct {
	Name      string `json:"name"`
	Extension any    `json:"extension"`
}

// user says as whom requests are sent.
type user struct {
	Certificate      string              `json:"client-certificate"`
	CertificateData  []byte              `json:"client-certificate-data"`
	Key              string              `json:"client-key"`
	KeyData          []byte              `json:"client-key-data"`
	Token            string              `json:"token"`
	TokenFile        string              `json:"tokenFile"`
	Name             string              `json:"username"`
	Password         string              `json:"password"`
	Impersonate      string              `json:"as"`
	ImpersonateUID   string              `json:"as-uid"`
	ImpersonateGroup []string            `json:"as-groups"`
	ImpersonateExtra map[string][]string `json:"as-user-extra"`
	Exec             *plugin             `json:"exec"`
	Provider         *struct {
		Name string `json:"name"`
	} `json:"auth-provider"`
}

// access is a server, and as whom to call it.
type access struct {
	cluster cluster
	user    user
}

// errNone says that there is no kubeconfig.
var errNone = errors.New("no kubeconfig")

// readFiles returns what the current context of these files selects. As for kubectl, files that do not exist do not
// count, and of contexts, clusters and users of one name the first counts. [errNone] is returned if no file selects
// any.
func readFiles(paths []string) (access, error) {
	var all kubeconfig
	for _, path := range paths {
		one, err := readFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return access{}, err
		}
		if all.CurrentContext == "" {
			all.CurrentContext = one.CurrentContext
		}
		all.Contexts = append(all.Contexts, one.Contexts...)
		all.Clusters = append(all.Clusters, one.Clusters...)
		all.Users = append(all.Users, one.Users...)
	}
	if all.CurrentContext == "" && len(all.Contexts) == 0 && len(all.Clusters) == 0 {
		return access{}, errNone
	}
	return all.current()
}

// readFile reads one file; paths in it begin where the file is.
func readFile(path string) (kubeconfig, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return kubeconfig{}, err
	}
	var k kubeconfig
	if err := yaml.Unmarshal(text, &k); err != nil {
		return kubeconfig{}, fmt.Errorf("%s: not a kubeconfig: %w", path, err)
	}
	folder := filepath.Dir(path)
	resolve := func(names ...*string) {
		for _, name := range names {
			if *name != "" && !filepath.IsAbs(*name) {
				*name = filepath.Join(folder, *name)
			}
		}
	}
	for i := range k.Clusters {
		resolve(&k.Clusters[i].Cluster.Authority)
	}
	for i := range k.Users {
		u := &k.Users[i].User
		resolve(&u.Certificate, &u.Key, &u.TokenFile)
		// a bare name is looked up on PATH
		if u.Exec != nil && filepath.Base(u.Exec.Command) != u.Exec.Command {
			resolve(&u.Exec.Command)
		}
	}
	return k, nil
}

// current returns what the current context selects.
func (k *kubeconfig) current() (access, error) {
	if k.CurrentContext == "" {
		return access{}, errors.New("current-context: got nothing, want the name of a context")
	}
	for _, c := range k.Contexts {
		if c.Name != k.CurrentContext {
			continue
		}
		a, err := k.named(c.Context.Cluster, c.Context.User)
		if err == nil {
			err = a.check()
		}
		if err != nil {
			return access{}, fmt.Errorf("context %q: %w", c.Name, err)
		}
		return a, nil
	}
	return access{}, fmt.Errorf("current-context: got %q, but there is no such context", k.CurrentContext)
}

// named returns a cluster and a user; without a name, the user has no credentials.
func (k *kubeconfig) named(clusterName, userName string) (a access, err error) {
	err = fmt.Errorf("cluster: got %q, but there is no such cluster", clusterName)
	for _, c := range k.Clusters {
		if c.Name == clusterName {
			a.cluster, err = c.Cluster, nil
			break
		}
	}
	if err != nil || userName == "" {
		return a, err
	}
	for _, u := range k.Users {
		if u.Name == userName {
			a.user = u.User
			return a, nil
		}
	}
	return a, fmt.Errorf("user: got %q, but there is no such user", userName)
}

// check refuses what contradicts itself, and what cannot be done.
func (a *access) check() error {
	switch c, u := &a.cluster, &a.user; {
	case c.Server == "":
		return errors.New("server: got nothing, want the address of the API server")
	case c.Insecure && (c.Authority != "" || len(c.AuthorityData) > 0):
		return errors.New("insecure-skip-tls-verify: got true beside a certificate authority; leave one of them out")
	case u.Provider != nil:
		return fmt.Errorf("auth-provider: got %q, but these are not supported; use exec, a plugin for credentials",
			u.Provider.Name)
	case (u.Certificate != "" || len(u.CertificateData) > 0) != (u.Key != "" || len(u.KeyData) > 0):
		return errors.New("client-certificate and client-key: got only one of them, want both or neither")
	case u.Impersonate == "" && (u.ImpersonateUID != "" || len(u.ImpersonateGroup)+len(u.ImpersonateExtra) > 0):
		return errors.New("as: got nothing, want a user, because there are as-uid, as-groups or as-user-extra")
	case u.Exec != nil:
		return u.Exec.check()
	}
	return nil
}

// account is where a cluster puts what its pods need to reach the API server.
const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

// inCluster returns what the cluster gives to its pods.
func inCluster(getenv func(string) string, folder string) (access, error) {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return access{}, errNone
	}
	a := access{cluster{Server: "https://" + net.JoinHostPort(host, port)}, user{TokenFile: folder + "token"}}
	if _, err := os.Stat(a.user.TokenFile); err != nil {
		return access{}, err
	}
	if _, err := os.Stat(folder + "ca.crt"); err == nil {
		a.cluster.Authority = folder + "ca.crt"
	}
	return a, nil
}
