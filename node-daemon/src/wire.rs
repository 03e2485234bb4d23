//! What is on the wire, and how this machine is connected to it.
//!
//! ```text
//!  frames: ARP, neighbour discovery     codec: heartbeats and other messages, signed with `keys`
//!     └─► packet_socket (AF_PACKET) ◄──────┴──────► node_network (UDP)
//!  links: the interfaces of the node ──► netlink     multicast_groups: where questions arrive
//! ```

pub mod clock;
pub mod codec;
pub mod frames;
pub mod keys;
pub mod links;
pub mod multicast_groups;
pub mod netlink;
pub mod node_network;
pub mod packet_socket;
