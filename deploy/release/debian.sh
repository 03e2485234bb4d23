# To be sourced: fetches Debian's packages for any architecture, and unpacks them without installing them, in a
# state of apt's own. Signatures are verified, and no root is needed.

# The sources of this machine that are Debian's, or with a suite's name that suite from the same mirror.
debian_sources() {
    local keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [[ -e $keyring ]] || return 1
    apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' \
        | sort --unique | while read -r origin uri suite component; do
        [[ $origin == Debian && $component == main ]] || continue
        if [[ -z ${1:-} ]]; then
            echo "deb [signed-by=$keyring] $uri $suite main"
        elif [[ $suite != *-* ]]; then
            echo "deb [signed-by=$keyring] $uri $1 main"
        fi
    done | sort --unique | grep .
}

# Downloads packages with what they depend on into FOLDER, from the sources on stdin.
debian_fetch() {
    local folder=$1
    shift
    rm -rf "$folder"
    mkdir -p "$folder"/{lists,cache/archives}/partial
    cat >"$folder/sources.list"
    : >"$folder/status"
    cat >"$folder/apt.conf" <<CONF
Dir::Etc::SourceList "$folder/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State "$folder";
Dir::State::Lists "$folder/lists";
Dir::State::status "$folder/status";
Dir::Cache "$folder/cache";
APT::Architecture "amd64";
APT::Architectures { "amd64"; "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
CONF
    {
        APT_CONFIG=$folder/apt.conf apt-get update \
            && APT_CONFIG=$folder/apt.conf apt-get install --yes --download-only "$@"
    } >"$folder/log" 2>&1 || {
        tail -n 5 "$folder/log" >&2
        return 1
    }
}
