//! Messages to the kernel's nftables, and what is read of its answers.
//!
//! Formats: `linux/netfilter/nf_tables.h`. Values in registers are as the kernel has them: marks in
//! the machine's byte order, addresses in the network's.

use std::ffi::CStr;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_bindings::nftables::{
    BitwiseOps, Chained, CmpOps, CtDirection, CtKeys, MetaKeys, Nfgenmsg, PayloadBase,
    PushExprListAttrs, Registers, Request,
};
use netlink_bindings::traits::{NetlinkRequest, Pusher};
use netlink_packet_core::{NLM_F_ACK, NetlinkBuffer};

use super::{Chain, NftRule};
use crate::vlan::MarkMask;

/// The table's name, as the kernel wants it: [`crate::vlan::TABLE`].
pub(super) const TABLE: &CStr = c"mooring";

const NFPROTO_INET: u8 = 1;
const NFPROTO_IPV4: u8 = 2;
const NFPROTO_IPV6: u8 = 10;
/// `NFNL_SUBSYS_NFTABLES`
pub(super) const SUBSYSTEM: u16 = 10;
const NF_INET_PRE_ROUTING: u32 = 0;
const NF_INET_LOCAL_OUT: u32 = 3;
/// After connections are known (-200), before their addresses are translated (-100).
const PRIORITY_MANGLE: i32 = -150;
const IFNAMSIZ: usize = 16;
/// A comment, in user data as `nft` writes and shows it.
const UDATA_COMMENT: u8 = 0;

/// A question to the kernel.
pub(super) struct Question {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) payload: Vec<u8>,
}

/// A transaction, and the sequence number of its last message that is answered.
pub(super) struct Transaction {
    pub(super) bytes: Vec<u8>,
    pub(super) last: u32,
}

fn header() -> Nfgenmsg {
    let mut header = Nfgenmsg::new();
    header.nfgen_family = NFPROTO_INET;
    header
}

fn transaction(sequence: u32, steps: impl FnOnce(&mut Chained<'static>) -> u32) -> Transaction {
    let mut batch = Nfgenmsg::new();
    batch.set_res_id(SUBSYSTEM);
    let mut chain = Chained::new(sequence);
    drop(chain.request().op_batch_begin_do(&batch));
    let count = steps(&mut chain);
    drop(chain.request().op_batch_end_do(&batch));
    let last = sequence.wrapping_add(count);
    let mut bytes = chain.finalize().buf().clone();
    acknowledge_only(last, &mut bytes);
    Transaction { bytes, last }
}

/// Has one message answered: the kernel answers all at once, and a socket has room for some 200.
/// A refusal is answered in any case.
fn acknowledge_only(sequence: u32, mut bytes: &mut [u8]) {
    while let Ok(mut message) = NetlinkBuffer::new_checked(&mut *bytes) {
        if message.sequence_number() != sequence {
            message.set_flags(message.flags() & !NLM_F_ACK);
        }
        let length = usize::try_from(message.length().next_multiple_of(4));
        let length = length.map_or(bytes.len(), |length| length.min(bytes.len()));
        bytes = bytes.split_at_mut(length).1;
    }
}

/// Deletes the table.
pub(super) fn delete_table(sequence: u32) -> Transaction {
    transaction(sequence, |chain| {
        delete(chain);
        1
    })
}

/// Deletes the table if it is there (adding it first, it is), and makes it with these rules.
pub(super) fn replace_table(rules: &[NftRule], sequence: u32) -> Transaction {
    transaction(sequence, |chain| {
        add_table(chain);
        delete(chain);
        add_table(chain);
        for place in Chain::ALL {
            add_chain(chain, place);
        }
        let mut count = 5;
        for rule in rules {
            add_rule(chain, rule);
            count += 1;
        }
        count
    })
}

fn delete(chain: &mut Chained<'static>) {
    let mut request = chain.request().op_deltable_do(&header());
    request.encode().push_name(TABLE);
}

fn add_table(chain: &mut Chained<'static>) {
    let mut request = chain.request().set_create().op_newtable_do(&header());
    request.encode().push_name(TABLE).push_flags(0);
}

fn add_chain(chain: &mut Chained<'static>, place: Chain) {
    let (hook, kind) = match place {
        Chain::Prerouting => (NF_INET_PRE_ROUTING, c"filter"),
        Chain::Output => (NF_INET_LOCAL_OUT, c"route"),
    };
    let mut request = chain.request().set_create().op_newchain_do(&header());
    request
        .encode()
        .push_table(TABLE)
        .push_name_bytes(place.name().as_bytes())
        .nested_hook()
        .push_num(hook)
        .push_priority(PRIORITY_MANGLE)
        .end_nested()
        .push_type(kind);
}

fn add_rule(chain: &mut Chained<'static>, rule: &NftRule) {
    let mut request = chain
        .request()
        .set_create()
        .set_append()
        .op_newrule_do(&header());
    let list = request
        .encode()
        .push_table(TABLE)
        .push_chain_bytes(rule.chain().name().as_bytes())
        .nested_expressions();
    let list = match rule {
        NftRule::Save {
            device,
            subnet,
            mark,
            mask,
        } => {
            let list = comes_in_by(list, device);
            let list = is_for(list, *subnet);
            let list = has_direction(list, CtDirection::Original);
            let list = connection_mark(list);
            let list = bits(list, &(!mask.bits()).to_ne_bytes(), &mark.to_ne_bytes());
            let list = list
                .nested_elem()
                .nested_data_ct()
                .push_key(CtKeys::Mark as u32)
                .push_sreg(Registers::Reg1 as u32)
                .end_nested()
                .end_nested();
            packet_mark(list, *mark, *mask)
        }
        NftRule::Restore { mark, mask, .. } => {
            let list = has_direction(list, CtDirection::Reply);
            let list = connection_mark(list);
            let list = bits(list, &mask.bits().to_ne_bytes(), &[0; 4]);
            let list = equals(list, &mark.to_ne_bytes());
            packet_mark(list, *mark, *mask)
        }
    };
    let comment = rule.comment();
    let length = u8::try_from(comment.len() + 1).unwrap_or(u8::MAX);
    let mut data = vec![UDATA_COMMENT, length];
    data.extend(comment.as_bytes());
    data.push(0);
    list.end_nested().push_userdata(&data);
}

type List<P> = PushExprListAttrs<P>;

fn meta<P: Pusher>(list: List<P>, key: MetaKeys) -> List<P> {
    list.nested_elem()
        .nested_data_meta()
        .push_dreg(Registers::Reg1 as u32)
        .push_key(key as u32)
        .end_nested()
        .end_nested()
}

fn equals<P: Pusher>(list: List<P>, value: &[u8]) -> List<P> {
    list.nested_elem()
        .nested_data_cmp()
        .push_sreg(Registers::Reg1 as u32)
        .push_op(CmpOps::Eq as u32)
        .nested_data()
        .push_value(value)
        .end_nested()
        .end_nested()
        .end_nested()
}

/// Keeps the bits of the mask, then turns over those of `flip`.
fn bits<P: Pusher>(list: List<P>, mask: &[u8], flip: &[u8]) -> List<P> {
    let length = u32::try_from(mask.len()).unwrap_or(0);
    list.nested_elem()
        .nested_data_bitwise()
        .push_sreg(Registers::Reg1 as u32)
        .push_dreg(Registers::Reg1 as u32)
        .push_len(length)
        .push_op(BitwiseOps::MaskXor as u32)
        .nested_mask()
        .push_value(mask)
        .end_nested()
        .nested_xor()
        .push_value(flip)
        .end_nested()
        .end_nested()
        .end_nested()
}

fn connection_mark<P: Pusher>(list: List<P>) -> List<P> {
    list.nested_elem()
        .nested_data_ct()
        .push_dreg(Registers::Reg1 as u32)
        .push_key(CtKeys::Mark as u32)
        .end_nested()
        .end_nested()
}

/// Sets the packet's mark.
fn packet_mark<P: Pusher>(list: List<P>, mark: u32, mask: MarkMask) -> List<P> {
    let list = meta(list, MetaKeys::Mark);
    let list = bits(list, &(!mask.bits()).to_ne_bytes(), &mark.to_ne_bytes());
    list.nested_elem()
        .nested_data_meta()
        .push_key(MetaKeys::Mark as u32)
        .push_sreg(Registers::Reg1 as u32)
        .end_nested()
        .end_nested()
}

fn has_direction<P: Pusher>(list: List<P>, direction: CtDirection) -> List<P> {
    let list = list
        .nested_elem()
        .nested_data_ct()
        .push_dreg(Registers::Reg1 as u32)
        .push_key(CtKeys::Direction as u32)
        .end_nested()
        .end_nested();
    equals(list, &[direction as u8])
}

fn comes_in_by<P: Pusher>(list: List<P>, device: &str) -> List<P> {
    let mut name = device.as_bytes().to_vec();
    name.resize(IFNAMSIZ, 0);
    equals(meta(list, MetaKeys::Iifname), &name)
}

fn is_for<P: Pusher>(list: List<P>, subnet: IpNet) -> List<P> {
    // Where the destination is in the header.
    let (family, offset) = match subnet {
        IpNet::V4(_) => (NFPROTO_IPV4, 16),
        IpNet::V6(_) => (NFPROTO_IPV6, 24),
    };
    let (network, mask) = (octets(subnet.network()), octets(subnet.netmask()));
    let length = u32::try_from(network.len()).unwrap_or(0);
    let list = equals(meta(list, MetaKeys::Nfproto), &[family]);
    let list = list
        .nested_elem()
        .nested_data_payload()
        .push_dreg(Registers::Reg1 as u32)
        .push_base(PayloadBase::NetworkHeader as u32)
        .push_offset(offset)
        .push_len(length)
        .end_nested()
        .end_nested();
    let none = vec![0; network.len()];
    equals(bits(list, &mask, &none), &network)
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Asks for the rules of the table: the request's type, flags and payload.
pub(super) fn dump_rules() -> Question {
    let mut request = Request::new().op_getrule_dump(&header());
    request.encode().push_table(TABLE);
    question(&request)
}

/// Asks for the table itself.
pub(super) fn get_table() -> Question {
    let mut request = Request::new().op_gettable_do(&header());
    request.encode().push_name(TABLE);
    question(&request)
}

fn question(request: &impl NetlinkRequest) -> Question {
    let kind = match request.protocol() {
        netlink_bindings::traits::Protocol::Raw { request_type, .. } => request_type,
        netlink_bindings::traits::Protocol::Generic(_) => 0,
    };
    Question {
        kind,
        flags: request.flags(),
        payload: request.payload().to_vec(),
    }
}

/// A rule of the table as [`NftRule::comment`] gives it; one that says otherwise for any other rule.
/// `None` for a rule of another table, which old kernels list too.
pub(super) fn read_rule(payload: &[u8]) -> Option<String> {
    let (_, rule) = netlink_bindings::nftables::OpGetruleDump::decode_request(payload);
    if rule.get_table().ok()? != TABLE {
        return None;
    }
    let comment = rule.get_userdata().ok().and_then(|data| {
        let (kind, rest) = data.split_first()?;
        let (_, text) = rest.split_first()?;
        let text = CStr::from_bytes_until_nul(text).ok()?.to_str().ok()?;
        (*kind == UDATA_COMMENT).then(|| text.to_owned())
    });
    Some(comment.unwrap_or_else(|| "a rule of somebody else".to_owned()))
}
