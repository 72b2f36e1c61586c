//! The parameters that the command line and parameter files give a node.

use std::ffi::{CString, c_char, c_void};

use r2r::ParameterValue;
use r2r_rcl::*;

use super::Result;
use super::context::{Context, ContextInner};
use super::error::{c_string, check, text};

/// A function of rcl that applies remaps to a node's name or namespace. r2r's bindings lack both.
type Remap = unsafe extern "C" fn(
    *const rcl_arguments_t,
    *const rcl_arguments_t,
    *const c_char,
    rcl_allocator_t,
    *mut *mut c_char,
) -> rcl_ret_t;

unsafe extern "C" {
    fn rcl_remap_node_name(
        local: *const rcl_arguments_t,
        global: *const rcl_arguments_t,
        node_name: *const c_char,
        allocator: rcl_allocator_t,
        output: *mut *mut c_char,
    ) -> rcl_ret_t;
    fn rcl_remap_node_namespace(
        local: *const rcl_arguments_t,
        global: *const rcl_arguments_t,
        node_name: *const c_char,
        allocator: rcl_allocator_t,
        output: *mut *mut c_char,
    ) -> rcl_ret_t;
}

impl Context {
    /// Returns the parameters that the command line and parameter files give the node `name` of
    /// the namespace `/`, in their order. Remaps of `__node` and `__ns` count. The node need not
    /// exist yet.
    ///
    /// If two have the same name, the later one counts. If they also differ in type, rcl keeps both
    /// values. Then the first of bool, integer, double and string counts, as in every ROS node.
    pub fn parameter_overrides(&self, name: &str) -> Result<Vec<(String, ParameterValue)>> {
        overrides(&self.inner, name)
    }
}

/// Returns the overrides for the node, and those for all nodes (`/**`).
fn overrides(context: &ContextInner, name: &str) -> Result<Vec<(String, ParameterValue)>> {
    let names = names(context, name)?;
    let mut params: *mut rcl_params_t = std::ptr::null_mut();
    let mut found: Vec<(String, ParameterValue)> = Vec::new();
    // SAFETY: the context has read its arguments; rcl returns null, or a tree whose arrays have the
    // lengths that it states. The tree is freed after it was read.
    unsafe {
        let ret = rcl_arguments_get_param_overrides(context.arguments(), &mut params);
        check(ret, || "read the parameters".to_owned())?;
        let Some(tree) = params.as_ref() else { return Ok(found) };
        let nodes = array(tree.node_names, tree.num_nodes);
        for (node, own) in nodes.iter().zip(array(tree.params, tree.num_nodes)) {
            let node = text(*node);
            if !["/**", "**"].contains(&node.as_str()) && !names.contains(&node) {
                continue;
            }
            let values = array(own.parameter_values, own.num_params);
            for (name, value) in array(own.parameter_names, own.num_params).iter().zip(values) {
                let name = text(*name);
                let value = value_of(value);
                found.retain(|(earlier, _)| *earlier != name);
                found.push((name, value));
            }
        }
        rcl_yaml_node_struct_fini(params);
    }
    Ok(found)
}

/// The names of the node after remapping: with its namespace, and alone.
fn names(context: &ContextInner, name: &str) -> Result<[String; 2]> {
    let given = c_string("the node", name)?;
    let namespace = remap(context, &given, rcl_remap_node_namespace)?.unwrap_or_default();
    let name = remap(context, &given, rcl_remap_node_name)?.unwrap_or_else(|| name.to_owned());
    Ok([format!("{}/{name}", namespace.trim_end_matches('/')), name])
}

/// Applies the process's remaps; `None` if none applies.
fn remap(context: &ContextInner, name: &CString, by: Remap) -> Result<Option<String>> {
    let mut output: *mut c_char = std::ptr::null_mut();
    // SAFETY: the context has read its arguments; the name lives during the call; rcl allocates
    // the answer with the allocator that frees it.
    unsafe {
        let allocator = rcutils_get_default_allocator();
        let arguments = context.arguments();
        let ret = by(std::ptr::null(), arguments, name.as_ptr(), allocator, &mut output);
        check(ret, || "read the remaps".to_owned())?;
        if output.is_null() {
            return Ok(None);
        }
        let remapped = text(output);
        if let Some(deallocate) = allocator.deallocate {
            deallocate(output.cast::<c_void>(), allocator.state);
        }
        Ok(Some(remapped))
    }
}

/// Returns the value that is set.
///
/// # Safety
/// Each pointer is null or points at a value of rcl, whose arrays have the length that they state.
unsafe fn value_of(value: &rcl_variant_t) -> ParameterValue {
    // SAFETY: the caller guarantees it.
    unsafe {
        if let Some(v) = value.bool_value.as_ref() {
            ParameterValue::Bool(*v)
        } else if let Some(v) = value.integer_value.as_ref() {
            ParameterValue::Integer(*v)
        } else if let Some(v) = value.double_value.as_ref() {
            ParameterValue::Double(*v)
        } else if !value.string_value.is_null() {
            ParameterValue::String(text(value.string_value))
        } else if let Some(v) = value.byte_array_value.as_ref() {
            ParameterValue::ByteArray(array(v.values, v.size).to_vec())
        } else if let Some(v) = value.bool_array_value.as_ref() {
            ParameterValue::BoolArray(array(v.values, v.size).to_vec())
        } else if let Some(v) = value.integer_array_value.as_ref() {
            ParameterValue::IntegerArray(array(v.values, v.size).to_vec())
        } else if let Some(v) = value.double_array_value.as_ref() {
            ParameterValue::DoubleArray(array(v.values, v.size).to_vec())
        } else if let Some(v) = value.string_array_value.as_ref() {
            let texts: &[*mut c_char] = array(v.data, v.size);
            ParameterValue::StringArray(texts.iter().map(|v| text(*v)).collect())
        } else {
            ParameterValue::NotSet
        }
    }
}

/// A C array as a slice; empty if the pointer is null.
///
/// # Safety
/// `data` is null or has `size` elements, which must live as long as the slice.
unsafe fn array<'a, T>(data: *const T, size: usize) -> &'a [T] {
    match data.is_null() {
        true => &[],
        // SAFETY: the caller guarantees it.
        false => unsafe { std::slice::from_raw_parts(data, size) },
    }
}
